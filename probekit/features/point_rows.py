"""Rows at a point inside of blocks, of one attention head, or of several points as one array."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.kinds import stream_array
from probekit.base.layers import ReadPoint, point_layer
from probekit.errors import OptionError
from probekit.store import Entry
from probekit.store.feature_array import DerivedArray, FeatureArray, RowNumbers


class AttentionHeadRows(DerivedArray):
    """What one attention head gave: a part of the width of another array, read as any array is.

    Attributes:
        whole: the array of all heads.
        columns: which of its channels are the head's.
    """

    def __init__(self, whole: FeatureArray, columns: slice) -> None:
        """Keep what is read; see the class."""
        width = columns.stop - columns.start
        super().__init__(replace(whole.spec, dim=width), ())
        self.whole, self.columns = whole, columns
        self.dtype = whole.dtype

    def read(
        self, rows: RowNumbers, layers: Sequence[int] | None = None, out: Tensor | None = None
    ) -> Float[Tensor, "rows layers dim"]:
        """Return rows of layers as `FeatureArray.read` does."""
        read = self.whole.read(rows, layers)[..., self.columns]
        result = self.empty(*read.shape[:2]) if out is None else out
        return result.copy_(read)

    def prefetch(
        self, rows: Int64[np.ndarray, " rows"], layers: Sequence[int] | None = None
    ) -> None:
        """Ask the system for rows, as `FeatureArray.prefetch` does: whole ones."""
        self.whole.prefetch(rows, layers)


class PointRows(DerivedArray):
    """Rows of several points, read as layers of one array (see `point_layer` for their numbers)."""

    def __init__(self, arrays: Mapping[str, FeatureArray]) -> None:
        """Keep the array of each point; all have the same rows and width."""
        first = next(iter(arrays.values()))
        layers = [point_layer(point, n) for point, own in arrays.items() for n in own.layers]
        super().__init__(replace(first.spec, layers=tuple(sorted(layers))), ())
        self.arrays, self.dtype = arrays, first.dtype

    def read(
        self, rows: RowNumbers, layers: Sequence[int] | None = None, out: Tensor | None = None
    ) -> Float[Tensor, "rows layers dim"]:
        """Return rows of layers as `FeatureArray.read` does."""
        index = self._layer_indices(layers)
        count, wanted = len(self._wanted(rows)), [self.layers[place] for place in index]
        result = self.empty(count, len(index)) if out is None else self._checked(out, count, index)
        for array, own, places in self._by_array(wanted):
            result[:, places] = array.read(rows, own)
        return result

    def prefetch(
        self, rows: Int64[np.ndarray, " rows"], layers: Sequence[int] | None = None
    ) -> None:
        """Ask the system for rows of each point, as `FeatureArray.prefetch` does."""
        for array, own, _ in self._by_array(self.layers if layers is None else layers):
            array.prefetch(rows, own)

    def _layer_indices(self, layers: Sequence[int] | None) -> list[int]:
        asked = self.layers if layers is None else layers
        if unknown := [layer for layer in asked if layer not in self.layers]:
            raise OptionError(
                f"layer {unknown[0]} is not stored: layers of several points have numbers of their "
                f"own. Choose from {list(self.layers)}."
            )
        return [self.layers.index(layer) for layer in asked]

    def _by_array(
        self, layers: Sequence[int]
    ) -> Iterator[tuple[FeatureArray, list[int], list[int]]]:
        """Yield each array with some of the layers, their numbers in it, and their places."""
        for point, array in self.arrays.items():
            numbers = {point_layer(point, layer): layer for layer in array.layers}
            places = [place for place, number in enumerate(layers) if number in numbers]
            if places:
                yield array, [numbers[layers[place]] for place in places], places


def read_array(entry: Entry, name: str, point: ReadPoint) -> FeatureArray:
    """Return an array of an entry: whole, the part of one attention head, or of several points.

    Args:
        entry: of some split.
        name: of the array, at this point or any other.
        point: what is read.

    Raises:
        OptionError: the model has no such head, or points are of several widths.
    """
    if point.joined:
        arrays = {at: entry.arrays[n] for at, n in point.arrays(stream_array(name)).items()}
        if len({array.dim for array in arrays.values()}) > 1:
            widths = ", ".join(f"{at} is {array.dim} wide" for at, array in arrays.items())
            raise OptionError(
                f"--point {point}: {widths}. Points that one head reads must have the same width."
            )
        return PointRows(arrays)
    array = entry.arrays[point.array(stream_array(name))]
    if point.attention_head is None:
        return array
    n_heads = entry.manifest.attention_heads
    return AttentionHeadRows(array, point.columns(array.dim, n_heads, str(entry.path)))
