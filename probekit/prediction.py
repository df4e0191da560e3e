"""Run a saved head on new text, with the very steps that made its training rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from probekit.backbone import Backbone, inspect_backbone, load_backbone
from probekit.data.encoded import EncodedSplit, encode_words
from probekit.data.token_batch import token_batches
from probekit.errors import BackboneError, DataError
from probekit.hardware import pick_device
from probekit.pooling import pool
from probekit.train.saved import TrainedHead

BATCH_TOKENS = 4096
_EXAMPLES = 256
_ROUNDED = ("float16", "bfloat16")


def predict(
    head: str | Path | TrainedHead,
    sentences: Sequence[Sequence[str]],
    *,
    model: str | None = None,
    device: str = "cpu",
    progress: bool = False,
) -> list[list[str]]:
    """Label new sentences with a saved head.

    Rows are made as the cache made them: same windows, pooling and compute dtype, rounded to the
    stored dtype (except int8, whose scales belong to the cache's chunks). So the labels equal
    those of training-time scoring.

    Args:
        head: a saved head, or its folder.
        sentences: words of each sentence.
        model: where the backbone is now; ``None`` is where it was when the cache was made.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        progress: draw a bar on stderr.

    Returns:
        One label name per word of each sentence.

    Raises:
        MissingFileError: no head in that folder, or no model at that path.
        BackboneError: the model is not the one that the head was trained on.
        DataError: a word is empty of characters that Unicode allows, or too long a sentence under
            ``--overlong error``.
    """
    trained = head if isinstance(head, TrainedHead) else TrainedHead.from_pretrained(head)
    backbone = matching_backbone(trained.config, model, device)
    features = trained.config["features"]
    encoded = encode_words(
        backbone.tokenizer,
        [f"sentence-{number}" for number in range(1, len(sentences) + 1)],
        sentences,
        max_length=features["max_length"] or backbone.info.max_length,
        overlong=features["overlong"],
    )
    labels: list[list[str]] = []
    starts = range(0, len(sentences), _EXAMPLES)
    for start in tqdm(starts, desc="predict", disable=not progress):
        stop = min(start + _EXAMPLES, len(sentences))
        rows = _rows(backbone, encoded, start, stop, trained, features)
        bounds = torch.from_numpy(encoded.example_words[start : stop + 1])
        bounds = bounds - bounds[0]
        found = trained.predict(rows, bounds)
        pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        labels.extend(found[first:last] for first, last in pairs)
    return labels


def matching_backbone(config: dict[str, Any], model: str | None, device: str) -> Backbone:
    """Load the backbone that a saved head was trained on.

    Raises:
        BackboneError: its weights or its tokenizer are others.
    """
    wanted = config["model"]
    inspection = inspect_backbone(model or wanted["name"], revision=wanted.get("revision"))
    for what in ("weights", "tokenizer"):
        expected = wanted[f"{what}_sha256"]
        found = inspection.info.to_json()[f"{what}_sha256"]
        if found != expected:
            raise BackboneError(
                f"model {inspection.info.name!r}: its {what} have sha256 {found[:12]}..., but the "
                f"head was trained on {wanted['name']!r} with {expected[:12]}.... Give the right "
                "one with --model."
            )
    return load_backbone(
        inspection,
        device=pick_device(device),
        compute_dtype=config["features"]["compute_dtype"],
    )


def read_sentences(lines: Sequence[str]) -> list[list[str]]:
    """Split lines of text into words at single spaces; blank lines are left out.

    Raises:
        DataError: there is no word at all.
    """
    split = [[word for word in line.strip().split(" ") if word] for line in lines]
    sentences = [words for words in split if words]
    if not sentences:
        raise DataError("there is no text to label; give one sentence per line.")
    return sentences


def _rows(
    backbone: Backbone,
    encoded: EncodedSplit,
    start: int,
    stop: int,
    head: TrainedHead,
    features: dict[str, Any],
) -> Float[Tensor, "rows layers dim"]:
    """Return the rows of some examples' words, rounded as the cache rounds them."""
    count = int(encoded.example_words[stop] - encoded.example_words[start])
    stored = getattr(torch, features["dtype"]) if features["dtype"] in _ROUNDED else torch.float32
    rows = torch.zeros(len(head.layers), count, backbone.info.dim, dtype=stored)
    batches = token_batches(
        encoded,
        start,
        stop,
        batch_tokens=BATCH_TOKENS,
        pad_id=backbone.pad_id,
        pooling=features["pooling"],
        arrays=("words",),
    )
    for batch in batches:
        states = backbone.layers(batch.input_ids, batch.lengths, head.layers)
        plan = batch.plans["words"].to(backbone.device, rows.device)
        for block, state in zip(rows, states, strict=True):
            pool(state, plan, block)
    return rows.transpose(0, 1)
