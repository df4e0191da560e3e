"""Rows made as they are read: of an attention head, of several points, of tokens or words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from probekit.base.kinds import TOKENS, stream_array
from probekit.base.layers import STREAM, ReadPoint, point_layer
from probekit.base.numbers import Ragged, bounds_of, ragged_arange
from probekit.data.encoded import encoded_of
from probekit.errors import DataError, OptionError
from probekit.features.split_labels import TargetSpans
from probekit.probe.token_heads.contract import PairPool, TokenHeadSpec, TokenPool
from probekit.store import Entry
from probekit.store.feature_array import DerivedArray, FeatureArray, RowNumbers
from probekit.store.tables import ExampleTable


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


_BLOCK_VALUES = 2**24
"""Most values of tokens that are in memory at a time, unless one text has more."""


def token_rows(examples: ExampleTable) -> Ragged:
    """Return the rows in ``tokens`` of each text of an entry: each token once, in their order."""
    starts, counts = examples.token_start, examples.n_token_rows
    rows = ragged_arange(starts, counts)
    if examples.has("kept"):  # each once already
        return Ragged(rows, bounds_of(counts))
    encoded = encoded_of(examples)
    once = bounds_of(encoded.once.astype(np.int64))
    return Ragged(rows[encoded.once], once[encoded.example_tokens])


def pooled_texts(entry: Entry, head: TokenHeadSpec, point: ReadPoint = STREAM) -> "PooledRows":
    """Return an array with a row for each text of an entry, made of its tokens.

    Raises:
        DataError: the entry does not hold tokens.
        OptionError: the model has no such attention head.
    """
    for named in point.arrays(TOKENS).values():
        if named not in entry.arrays:
            held = entry.manifest.lacking(named)
            raise DataError(f"--token-head {head.name} reads tokens: {entry.path} {held}")
    examples, array = entry.examples, read_array(entry, TOKENS, point)
    return PooledRows(array, head, len(examples), lambda: token_rows(examples))


def pooled_spans(
    entry: Entry, head: TokenHeadSpec, spans: TargetSpans, point: ReadPoint = STREAM
) -> "PooledRows":
    """Return an array with a row for each target of an entry, made of the words of its spans."""
    starts, stops = spans.places.reshape(-1, 2).T
    examples, n_sides = entry.examples, spans.places.shape[1]
    of_example = np.repeat(np.arange(len(examples)), np.diff(spans.bounds) * n_sides)
    lengths = stops - starts
    words = ragged_arange(bounds_of(examples.n_rows)[of_example] + starts, lengths)
    valid = examples.valid[words]
    bounds = bounds_of(valid.astype(np.int64))[bounds_of(lengths)]
    runs = Ragged(examples.rows[words[valid]], bounds)
    array = read_array(entry, point.array("words"), point)
    return PooledRows(array, head, len(spans.places), lambda: runs, n_sides)


class PooledRows(DerivedArray):
    """An array with a row for each text, span or pair of spans, which a token head makes.

    It is read as any other, by their number; nothing that is made is kept.

    Attributes:
        tokens: the array of the tokens, or words.
        head: what makes a row of them.
        n_runs: runs of tokens that make a row: 2 of a pair.
    """

    def __init__(
        self,
        tokens: FeatureArray,
        head: TokenHeadSpec,
        n_rows: int,
        look_up: Callable[[], Ragged],
        n_runs: int = 1,
    ) -> None:
        """Keep what rows are made of.

        Args:
            tokens: the array of the tokens.
            head: what makes a row of them.
            n_rows: how many rows there are.
            look_up: returns the rows in ``tokens`` of each run.
            n_runs: runs that make a row.
        """
        width = head.row_width(tokens.dim)
        super().__init__(replace(tokens.spec, dtype="float32", dim=width), ())
        self.rows = n_rows
        self.tokens, self.head, self.n_runs, self._look_up = tokens, head, n_runs, look_up

    @cached_property
    def _pool(self) -> TokenPool | PairPool:
        if not self.head.fixed:
            raise OptionError(
                f"token head {self.head.name} is trained with a head: its rows are there once a "
                "run has trained it."
            )
        return self.head.module(len(self.tokens.layers), self.tokens.dim, torch.Generator())

    @cached_property
    def runs(self) -> Ragged:
        """The rows in ``tokens`` of each run; those of a pair follow each other."""
        return self._look_up()

    @property
    def are_filled(self) -> Bool[np.ndarray, " rows"]:
        """Which rows have tokens in each of their runs."""
        return np.asarray((self.runs.lengths.reshape(-1, self.n_runs) > 0).all(1))

    @cached_property
    def _n_tokens(self) -> Int64[np.ndarray, " rows"]:
        return np.asarray(self.runs.lengths.reshape(-1, self.n_runs).sum(1))

    def stored_rows(self, rows: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " rows"]:
        """Return how many tokens, or words, each row is made of."""
        return np.asarray(self._n_tokens[rows])

    def runs_of(self, rows: Int64[np.ndarray, " rows"]) -> Ragged:
        """Return the runs of some rows, in the order given."""
        return self.runs.take((rows[:, None] * self.n_runs + np.arange(self.n_runs)).ravel())

    def read(
        self, rows: RowNumbers, layers: Sequence[int] | None = None, out: Tensor | None = None
    ) -> Float[Tensor, "rows layers dim"]:
        """Return the rows of texts as `FeatureArray.read` does, in float32."""
        index = self._layer_indices(layers)
        wanted = self._wanted(rows)
        count = len(wanted)
        texts = np.arange(count) + wanted.start if isinstance(wanted, range) else wanted.numpy()
        result = self.empty(count, len(index)) if out is None else self._checked(out, count, index)
        chosen = [self.layers[at] for at in index]
        for start, stop in self._blocks(texts, len(index)):
            tokens = self.runs_of(texts[start:stop])
            z = self.tokens.read(tokens.values, chosen).permute(1, 0, 2)
            pooled = self._pool(z, torch.from_numpy(tokens.bounds))
            result[start:stop] = pooled.permute(1, 0, 2)
        return result

    def prefetch(
        self, rows: Int64[np.ndarray, " rows"], layers: Sequence[int] | None = None
    ) -> None:
        """Ask the system for the tokens of texts, as `FeatureArray.prefetch` does."""
        self.tokens.prefetch(self.runs_of(rows).values, layers)

    def _blocks(
        self, texts: Int64[np.ndarray, " texts"], n_layers: int
    ) -> Iterator[tuple[int, int]]:
        """Yield runs of texts whose tokens fit into memory, at least one text each."""
        values = self.stored_rows(texts) * n_layers * self.tokens.dim
        ends, start = np.cumsum(values), 0
        while start < len(texts):
            before = ends[start - 1] if start else 0
            fitting = int(np.searchsorted(ends, before + _BLOCK_VALUES, side="right"))
            stop = max(fitting, start + 1)
            yield start, stop
            start = stop
