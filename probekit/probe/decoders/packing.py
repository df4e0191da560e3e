"""Sentences of different lengths side by side, word by word, without padding."""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Packing:
    """The rows of some sentences in the order in which a recursion over words wants them.

    Sentences are sorted by falling length, so those that have a word t are the first
    ``sizes[t]``; packed rows hold word 0 of these, then word 1, and so on. Empty sentences have no
    place.

    Attributes:
        rows: row of each packed place.
        sizes: number of sentences that have a word t; falling, none is 0.
        sentences: number of each packed sentence, longest first.
    """

    rows: Int64[Tensor, " rows"]
    sizes: tuple[int, ...]
    sentences: Int64[Tensor, " packed"]


def pack(offsets: Int64[Tensor, " bounds"]) -> Packing:
    """Return the packing of sentences that own rows ``offsets[s]:offsets[s + 1]``."""
    lengths = offsets.diff()
    order = lengths.argsort(descending=True, stable=True)
    order = order[lengths[order] > 0]
    lengths = lengths[order]
    words = torch.arange(int(lengths[0]) if len(lengths) else 0, device=offsets.device)
    present = words[:, None] < lengths
    rows = (offsets[order] + words[:, None])[present]
    return Packing(rows, tuple(present.sum(1).tolist()), order)
