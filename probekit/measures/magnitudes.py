"""How large activations are: their exact median, and massive ones (Sun et al. 2024)."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from probekit.measures.measured_rows import MeasuredRows
from probekit.results.layer_geometry import MassiveChannel

MASSIVE, TIMES = 100.0, 1000.0
"""A massive activation has a magnitude over the first, and at least the second times the median
magnitude of its layer (Sun et al. 2024, "Massive activations in large language models", section 2).
"""

_HALF = 1 << 16


def medians(rows: MeasuredRows) -> Float64[Tensor, " layers"]:
    """Return the median magnitude of the activations of each layer, exactly, in two passes.

    As ``numpy.median``, it is the mean of the two in the middle of an even number.
    """
    # The bits of a float32 that is not negative, read as a whole number, grow with it. A first pass
    # counts how often each upper half occurs, which says in which upper half the middle ones are; a
    # second pass counts the lower halves of those alone. Of 5 values with the upper halves 3 3 7 7
    # 9, the middle one (number 2, from 0 on) is the first of those with 7.
    n_layers, count = len(rows.layers), len(rows) * rows.array.dim
    middles = ((count - 1) // 2, count // 2)
    upper = torch.zeros(n_layers, _HALF, dtype=torch.int64)
    for block in rows.blocks():
        for own, bits in zip(upper, _bits(block), strict=True):
            own += torch.bincount(bits >> 16, minlength=_HALF)
    before = upper.cumsum(1)
    halves = [torch.searchsorted(before, torch.full((n_layers, 1), n + 1))[:, 0] for n in middles]
    lower = [torch.zeros(n_layers, _HALF, dtype=torch.int64) for _ in middles]
    for block in rows.blocks():
        for layer, bits in enumerate(_bits(block)):
            for half, counts in zip(halves, lower, strict=True):
                found = bits[(bits >> 16) == half[layer]] & (_HALF - 1)
                counts[layer] += torch.bincount(found, minlength=_HALF)
    ends = [
        _value(half, counts, n - (before - upper).gather(1, half[:, None])[:, 0])
        for n, half, counts in zip(middles, halves, lower, strict=True)
    ]
    return (ends[0] + ends[1]) / 2


def _bits(block: Float64[Tensor, "layers rows dim"]) -> Int64[Tensor, "layers values"]:
    """Return the bits of all magnitudes of each layer; what is stored fits in float32."""
    return block.abs().float().flatten(1).view(torch.int32).long()


def _value(
    half: Int64[Tensor, " layers"],
    counts: Int64[Tensor, "layers lower"],
    number: Int64[Tensor, " layers"],
) -> Float64[Tensor, " layers"]:
    """Return the value that has this number among those of an upper half."""
    low = torch.searchsorted(counts.cumsum(1), number[:, None] + 1)[:, 0]
    return ((half << 16) | low).int().view(torch.float32).double()


def massive_channels(
    rows: MeasuredRows,
    median: Float64[Tensor, " layers"],
    largest: Float64[Tensor, " layers"],
) -> list[Sequence[MassiveChannel]]:
    """Return the channels of each layer that hold massive activations.

    Args:
        rows: what is measured.
        median: median magnitude of each layer.
        largest: largest magnitude of each layer; only those where it is massive are read.
    """
    places = torch.nonzero(_is_massive(largest, median))[:, 0].tolist()
    layers = [rows.layers[place] for place in places]
    counts: dict[int, Tensor | int] = defaultdict(int)
    peaks: dict[int, Tensor] = {}
    for block in rows.blocks(layers) if layers else ():
        for place, values in zip(places, block.abs(), strict=True):
            hit = _is_massive(values, median[place])
            counts[place] = counts[place] + hit.sum(0)
            peak = values.amax(0)
            peaks[place] = torch.maximum(peaks[place], peak) if place in peaks else peak
    found: list[Sequence[MassiveChannel]] = [()] * len(rows.layers)
    for place in places:
        hits = torch.as_tensor(counts[place])
        channels = [
            MassiveChannel(channel=channel, rows=int(hits[channel]), largest=float(peak))
            for channel, peak in enumerate(peaks[place])
            if hits[channel]
        ]
        found[place] = tuple(sorted(channels, key=lambda one: (-one.rows, one.channel)))
    return found


def _is_massive(values: Tensor, median: Tensor) -> Tensor:
    return (values > MASSIVE) & (values >= TIMES * median)
