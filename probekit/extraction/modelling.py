"""Language modelling: which tokens are predicted; and which options fit a task and a model."""

from collections.abc import Mapping
from typing import Any

from probekit.backbone import BackboneInfo
from probekit.base.kinds import OUTPUT_HEAD
from probekit.data.encoded import EncodedSplit
from probekit.data.predicted import RATE
from probekit.errors import DataError, OptionError
from probekit.extraction.request_options import ExtractOptions
from probekit.tasks import Split, Task

DEFAULT_EVERY = 8
"""Neighbouring positions of a text predict from nearly the same states: one in eight is kept."""

_POOLING = (
    "--pooling says which subwords make a word's row, and the texts of {task} are not split into "
    "words. Leave it out; training chooses among the rows of a text."
)


def check_fits(options: ExtractOptions, task: Task, info: BackboneInfo) -> None:
    """Refuse options that mean nothing for task and model, before they make a key of their own.

    Raises:
        OptionError: there is one.
    """
    if options.pooling != "auto" and task.kind != "tagging":
        raise OptionError(_POOLING.format(task=task.name))
    predicts = task.kind == "language-modelling"
    if predicts and options.overlong != "stride":
        raise OptionError(
            "--overlong: for language modelling, texts are read in blocks of --max-length, one "
            "after the other. Leave it out."
        )
    wrong = {
        "--passes": options.passes and (not predicts or info.causal),
        "--mask-seed": options.mask_seed is not None and (not predicts or info.causal),
        "--every": options.every and (not predicts or not info.causal),
    }
    for option in (name for name, refused in wrong.items() if refused):
        form = "next-token prediction" if option == "--every" else "masked language modelling"
        models = "causal" if option == "--every" else "bidirectional"
        raise OptionError(
            f"{option} is for {form}: a task of that kind and a {models} model. Leave it out."
        )


def masking_request(options: ExtractOptions, info: BackboneInfo) -> dict[str, Any]:
    """Return what is predicted, as the key of an entry hashes it.

    The form follows the model: hidden tokens for one that reads both ways, the next token for a
    causal one.
    """
    if info.causal:
        return {"form": "next", "every": options.every or DEFAULT_EVERY}
    return {
        "form": "masked",
        "rate": RATE,
        "passes": options.passes or 1,
        "seed": options.mask_seed or 0,
    }


def check_predicts(split: Split, encoded: EncodedSplit, masking: Mapping[str, Any]) -> None:
    """Refuse texts of which no token is predicted.

    Args:
        split: the texts.
        encoded: as the model reads them.
        masking: from ``masking_request``.

    Raises:
        DataError: so it is.
    """
    if encoded.counts["predicted"]:
        return
    every = f", every {masking['every']}th position (--every)" if "every" in masking else ""
    raise DataError(
        f"{split.origin}: no token is predicted{every}; the texts of {split.name} are too short or "
        "too few."
    )


def check_tie(options: ExtractOptions, keep: tuple[str, ...]) -> None:
    """Refuse a choice of output head that no entry can keep.

    Raises:
        OptionError: ``--tie`` without an output head, or random weights without ``--tie``.
    """
    kept = OUTPUT_HEAD in keep
    if options.tie is not None and not kept and "predicted" not in keep:
        raise OptionError(
            f"--tie {options.tie} is for language modelling, whose output head it makes. Leave it "
            f"out; to keep an output head for another task, add --keep {OUTPUT_HEAD}."
        )
    if options.tie is not None and not kept:
        raise OptionError(
            f"--tie {options.tie} makes an output head, and none is kept: add --keep {OUTPUT_HEAD}."
        )
    if kept and options.random_init is not None and options.tie is None:
        raise OptionError(
            "--random-init: random weights come without an output head. Give --tie input: a "
            "trained transform over their input embeddings."
        )
