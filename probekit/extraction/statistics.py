"""Largest magnitude and non-finite values per layer, and the guard that keeps them off the disk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probekit.errors import StateRangeError
from probekit.store.arrays import FeatureDtype
from probekit.store.codec import fits


@dataclass(frozen=True)
class LayerStatistics:
    """Range of one array's rows as they were gathered (rounded already, or not), layer by layer.

    Attributes:
        max_abs: largest finite ``|x|`` of each layer.
        non_finite: number of NaN and infinite values of each layer.
    """

    max_abs: tuple[float, ...]
    non_finite: tuple[int, ...]

    @classmethod
    def of(cls, block: Tensor) -> "LayerStatistics":
        """Measure a block of shape ``(layers, rows, dim)``; NaN and inf are counted, not hidden."""
        largest = [_largest(layer) for layer in block]
        bad = [
            0 if _is_finite(value) else int((~torch.isfinite(layer)).sum())
            for value, layer in zip(largest, block, strict=True)
        ]
        finite = [
            value if not count else _largest(torch.nan_to_num(layer, 0.0, 0.0, 0.0))
            for value, count, layer in zip(largest, bad, block, strict=True)
        ]
        return cls(max_abs=tuple(finite), non_finite=tuple(bad))

    @property
    def finite(self) -> bool:
        """Whether every value is."""
        return not any(self.non_finite)

    @classmethod
    def merge(cls, parts: Sequence["LayerStatistics"]) -> "LayerStatistics":
        """Combine the statistics of several units of the same array."""
        return cls(
            max_abs=tuple(max(values) for values in zip(*(p.max_abs for p in parts), strict=True)),
            non_finite=tuple(
                sum(values) for values in zip(*(p.non_finite for p in parts), strict=True)
            ),
        )


def _largest(layer: Tensor) -> float:
    """Return max |x| (0 for no rows), without a temporary copy of the layer."""
    if layer.numel() == 0:
        return 0.0
    low, high = torch.aminmax(layer)
    return max(-low.item(), high.item()) if _is_finite(low.item() + high.item()) else float("nan")


def _is_finite(value: float) -> bool:
    return value - value == 0.0


def all_fit(statistics: Mapping[str, LayerStatistics], dtype: FeatureDtype) -> bool:
    """Say whether every finite value of every array lies in a dtype's range."""
    return all(fits(dtype, max(part.max_abs)) for part in statistics.values())


def check_range(
    statistics: Mapping[str, LayerStatistics],
    layers: Mapping[str, Sequence[int]],
    dtype: str,
    *,
    place: str,
    remedy: str,
) -> None:
    """Refuse values that ``dtype`` cannot hold.

    Args:
        statistics: by array.
        layers: layer numbers of each array, in the order of its statistics.
        dtype: stored dtype.
        place: which examples these are, for the message.
        remedy: the command to rerun, for the message.

    Raises:
        StateRangeError: a value is NaN or infinite, or exceeds float16's range.
    """
    for array, part in statistics.items():
        for layer, largest, bad in zip(layers[array], part.max_abs, part.non_finite, strict=True):
            if bad:
                raise StateRangeError(
                    f"layer {layer} of {place} holds {bad} NaN or infinite values, which no dtype "
                    "stores. The forward pass overflowed: rerun with --compute-dtype float32."
                )
            if dtype == "float16" and not fits("float16", largest):
                raise StateRangeError(
                    f"layer {layer} of {place} reaches |x| = {largest:,.0f}; float16 ends at "
                    f"65,504. Nothing out of range was written. Rerun: {remedy}"
                )
