"""Extraction again and again, and the arithmetic that it needs; imports transformers."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from subjects import data_path, model_path
from torch.nn import ModuleList

from probekit.backbone import Backbone
from probekit.data.batches import TokenBatch
from probekit.extraction import ExtractOptions, ExtractTarget, open_session
from probekit.extraction.compute import batches_of
from probekit.extraction.opening import Session
from probekit.extraction.plan import Plan
from probekit.tasks import Split


def conll_session(
    args: argparse.Namespace,
    model: str,
    split: str,
    *,
    limit: int | None,
    cache: Path,
    **options: Any,
) -> tuple[Session, Split]:
    """Return a session that extracts CoNLL-2003's split again and again, its model not loaded.

    Args:
        args: of the benchmark.
        model: its name.
        split: its name.
        limit: first sentences only.
        cache: where entries go.
        options: others of `ExtractOptions`.
    """
    target = ExtractTarget(
        model=model_path(args, model),
        task="conll",
        data=data_path(args, "conll2003"),
        splits=(split,),
        device=args.device,
        cache=cache,
        overwrite=True,
    )
    session, (texts,) = open_session(target, ExtractOptions(limit=limit, **options))
    return session, texts


def all_batches(backbone: Backbone, plan: Plan) -> list[TokenBatch]:
    """Return what extraction gives to the model."""
    return [batch for unit in plan.units for batch in batches_of(backbone, plan, unit)]


def run_forward(backbone: Backbone, batches: Sequence[TokenBatch]) -> None:
    """Run the model over batches and keep nothing."""
    for batch in batches:
        (last,) = backbone.layers(
            batch.input_ids, batch.lengths, [backbone.info.n_blocks], batch.token_types
        )
    last[0, 0, 0].item()


def needed_operations(backbone: Backbone, plan: Plan) -> float:
    """Return the arithmetic that the real subwords of a plan need.

    Two operations per weight of the blocks and subword, and 4 T^2 d per window of T subwords and
    block for attention.
    """
    blocks = next(m for m in backbone.model.modules() if isinstance(m, ModuleList))
    found = (getattr(module, "weight", None) for module in blocks.modules())
    weights = sum(weight.numel() for weight in found if weight is not None and weight.ndim == 2)
    lengths = plan.encoded.window_lengths.astype(float)
    attention = 4.0 * (lengths**2).sum() * backbone.info.dim * backbone.info.n_blocks
    return float(2.0 * weights * lengths.sum() + attention)
