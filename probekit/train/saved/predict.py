"""Run a saved head on new text, with the very steps that made its training rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from probekit.backbone import load_again
from probekit.base.kinds import KINDS
from probekit.base.notices import ProgressBar
from probekit.base.numbers.ragged import bounds_of
from probekit.errors import OptionError
from probekit.train.saved.head import TrainedHead
from probekit.train.saved.items import Item, as_examples
from probekit.train.saved.text_rows import HeadReader

_EXAMPLES = 256


def predict(
    head: str | Path | TrainedHead,
    texts: Sequence[Item],
    *,
    model: str | None = None,
    device: str = "auto",
    progress: bool = False,
) -> list[list[str]] | list[str] | list[float]:
    """Label new texts with a saved head.

    Rows are made as the cache made them: same windows, pooling and compute dtype, rounded to the
    stored dtype (except int8, whose scales belong to the cache's chunks). So the labels equal
    those of training-time scoring.

    Args:
        head: a saved head, or its folder.
        texts: as in the head's training: the words of a sentence (a list), a running text (a
            string), or a pair of texts (two strings). A string is split at spaces where words
            are expected.
        model: where the backbone is now; ``None`` is where it was when the cache was made.
        device: ``cpu``, ``cuda``, ``cuda:1``; ``auto`` is CUDA where there is some, else the CPU.
        progress: show progress on stderr.

    Returns:
        Per text, a label name for each word (tagging), one label name (sentence, pair) or one
        number (regression).

    Raises:
        MissingFileError: no head in that folder, or no model at that path.
        BackboneError: the model is not the one that the head was trained on.
        DataError: a text is no pair where one is expected, or a pair where none is; is not valid
            Unicode; or is too long under ``--overlong error``.
        OptionError: the head predicts tokens of a language model.
        StateRangeError: a hidden state is not finite in the dtype that the cache stored.
    """
    trained = head if isinstance(head, TrainedHead) else TrainedHead.from_pretrained(head)
    saved, kind = trained.saved, KINDS[trained.kind]
    if kind.targets == "vocabulary":
        raise OptionError(
            "this head predicts tokens at positions that its extraction chose; it labels no text."
        )
    backbone = load_again(
        saved.model,
        model=model,
        device=device,
        compute_dtype=saved.features.compute_dtype,
        made="the head",
    )
    encoded = backbone.inspection.encode(
        as_examples(texts, trained.text_kind),
        max_length=saved.features.max_length,
        overlong=saved.features.overlong,
    )
    bounds = torch.from_numpy(bounds_of(encoded.rows[trained.array]))
    reader = HeadReader(trained, backbone, encoded)
    found: list[Any] = []
    with ProgressBar(total=len(texts), desc="predict", unit="text", shown=progress) as bar:
        for start in range(0, len(texts), _EXAMPLES):
            stop = min(start + _EXAMPLES, len(texts))
            offsets = bounds[start : stop + 1] - bounds[start]
            found += trained.predict(reader.read(start, stop), offsets)
            bar.report(stop - start)
    if kind.per == "text":
        return found
    pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return [found[first:last] for first, last in pairs]
