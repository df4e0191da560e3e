"""Run a saved head on new text, with the very steps that made its training rows."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from probekit.backbone import load_again, read_rows
from probekit.data.words import encode_words
from probekit.errors import DataError
from probekit.store.codec import read_dtype
from probekit.train.saved import TrainedHead

BATCH_TOKENS = 4096
_EXAMPLES = 256


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
    features = trained.config["features"]
    backbone = load_again(
        trained.config["model"],
        model=model,
        device=device,
        compute_dtype=features["compute_dtype"],
        made="the head",
    )
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
        rows = read_rows(
            backbone,
            encoded,
            start,
            stop,
            layers=trained.layers,
            pooling=features["pooling"],
            batch_tokens=BATCH_TOKENS,
            dtype=read_dtype(features["dtype"]),
        )
        bounds = torch.from_numpy(encoded.example_words[start : stop + 1])
        bounds = bounds - bounds[0]
        found = trained.predict(rows, bounds)
        pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        labels.extend(found[first:last] for first, last in pairs)
    return labels


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
