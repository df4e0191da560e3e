"""Entries of the parts of a split that is too large to be read at once, read as one entry."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Int64
from torch import Tensor

from probekit.base.fingerprint import digest
from probekit.base.numbers import bounds_of
from probekit.errors import EntryError
from probekit.store.codec import Int8Scales, StoredRows
from probekit.store.entry import Entry, read_columns, read_examples
from probekit.store.feature_array import FeatureArray, RowNumbers
from probekit.store.tables import STARTS, ExampleTable


class JoinedArray(FeatureArray):
    """One array of several entries, whose rows follow one another."""

    def __init__(self, arrays: Sequence[FeatureArray], rows: Sequence[int]) -> None:
        """Keep the arrays, which have the same layers and width, and how many rows each counts."""
        first, stored = arrays[0].spec, {array.spec.dtype for array in arrays}
        dtype = first.dtype if len(stored) == 1 else "float32"  # which holds all of them exactly
        super().__init__(replace(first, dtype=dtype), ())
        self.rows = sum(rows)
        self._arrays, self._bounds = tuple(arrays), bounds_of(np.array(rows))

    def read(
        self, rows: RowNumbers, layers: Sequence[int] | None = None, out: Tensor | None = None
    ) -> Tensor:
        """Return rows of layers, as a copy; args and errors are those of an entry's own array."""
        index, wanted = self._layer_indices(layers), self._wanted(rows)
        count = len(wanted)
        result = self.empty(count, len(index)) if out is None else self._checked(out, count, index)
        for array, places, local in self._by_array(wanted):
            result[places] = array.read(local, layers).to(result.dtype)
        return result

    def read_stored(self, rows: RowNumbers, layers: Sequence[int] | None = None) -> StoredRows:
        """Return rows of layers as they are stored, or as `read` where entries differ in that."""
        if self.spec.dtype == "float32":
            return StoredRows(self.read(rows, layers).permute(1, 0, 2))
        read = list(self._by_array(self._wanted(rows)))
        if not read:
            return self._arrays[0].read_stored(rows, layers)
        stored = [array.read_stored(local, layers) for array, _, local in read]
        back = torch.argsort(torch.cat([places for _, places, _ in read]))
        values = torch.cat([of.values for of in stored], 1)[:, back]
        scales = [of.scales for of in stored if of.scales is not None]
        if not scales:
            return StoredRows(values)
        before = bounds_of(np.array([of.scale.shape[1] for of in scales])).tolist()
        chunk = torch.cat([of.chunk + first for of, first in zip(scales, before, strict=False)])
        norm = torch.cat([of.norm for of in scales], 1)[:, back]
        return StoredRows(
            values, Int8Scales(norm, chunk[back], torch.cat([of.scale for of in scales], 1))
        )

    def stored_nbytes(self, rows: Int64[np.ndarray, " rows"], n_layers: int) -> int:
        """Return the bytes that `read_stored` takes for rows and a number of layers."""
        parts = self._by_array(torch.from_numpy(rows))
        return sum(array.stored_nbytes(local.numpy(), n_layers) for array, _, local in parts)

    def prefetch(
        self, rows: Int64[np.ndarray, " rows"], layers: Sequence[int] | None = None
    ) -> None:
        """Ask the system to bring rows into the page cache, and do not wait."""
        for array, _, local in self._by_array(torch.from_numpy(rows)):
            array.prefetch(local.numpy(), layers)

    def _by_array(self, wanted: Tensor | range) -> Iterator[tuple[FeatureArray, Tensor, Tensor]]:
        """Yield each array with the places of its rows among those wanted, and their numbers."""
        rows = torch.arange(wanted.start, wanted.stop) if isinstance(wanted, range) else wanted
        owner = np.searchsorted(self._bounds, rows.numpy(), side="right") - 1
        for number in np.unique(owner).tolist():
            places = torch.from_numpy(np.flatnonzero(owner == number))
            yield self._arrays[number], places, rows[places] - int(self._bounds[number])


def _slots(part: Entry) -> dict[str, int]:
    """Return how many rows a part has in the arrays whose rows each column counts."""
    return {
        column: max((part.arrays[name].rows for name in names if name in part.arrays), default=0)
        for column, names in STARTS.items()
    }


def _moved(table: pa.Table, before: Mapping[str, int]) -> pa.Table:
    """Return an example table whose rows lie behind those of earlier parts."""
    for column, rows in before.items():
        if rows and column in table.column_names:
            at, starts = table.schema.get_field_index(column), table[column]
            moved = pc.if_else(pc.less(starts, 0), starts, pc.add(starts, rows))
            table = table.set_column(at, table.schema.field(at), moved)
    return table


_KEPT = ("id", *STARTS, "n_rows", "n_tokens")
"""Columns of the examples that stay in memory."""


@dataclass(frozen=True)
class JoinedExamples(ExampleTable):
    """The examples of several entries; words, texts and subwords are read when they are asked for.

    Attributes:
        table: ids, and where the rows of each example are.
        parts: the entries.
        before: rows of the parts before each one, by the columns of `STARTS`.
        names: the columns that all parts have.
    """

    parts: tuple[Entry, ...] = field(repr=False)
    before: tuple[Mapping[str, int], ...] = field(repr=False)
    names: frozenset[str] = field(repr=False)
    _columns: dict[str, pa.ChunkedArray] = field(default_factory=dict, repr=False, compare=False)
    _taken: dict[bytes, ExampleTable] = field(default_factory=dict, repr=False, compare=False)

    def has(self, column: str) -> bool:
        """Say whether the parts have an optional column."""
        return column in self.names

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column, which stays in memory.

        Raises:
            EntryError: a file has been damaged meanwhile.
        """
        if name in self.table.column_names:
            return super().column(name)
        if name not in self._columns:
            tables = [read_columns(part.folder, part.manifest, [name]) for part in self.parts]
            self._columns[name] = pa.concat_tables(tables)[name]
        return self._columns[name]

    def take(self, positions: Int64[np.ndarray, " examples"]) -> ExampleTable:
        """Return some examples; those that were asked for last stay in memory.

        Raises:
            EntryError: a file has been damaged meanwhile.
        """
        if (asked := positions.tobytes()) not in self._taken:
            bounds = bounds_of(np.array([part.manifest.counts["examples"] for part in self.parts]))
            owner, tables = np.searchsorted(bounds, positions, side="right") - 1, []
            for number in np.unique(owner).tolist() or [0]:  # of no examples: the columns alone
                part, local = self.parts[number], positions[owner == number] - bounds[number]
                table = read_examples(part.folder, part.manifest).take(local).table
                tables.append(_moved(table, self.before[number]))
            self._taken.clear()
            self._taken[asked] = ExampleTable(pa.concat_tables(tables, promote_options="default"))
        return self._taken[asked]


@dataclass(frozen=True)
class JoinedEntry(Entry):
    """The entries of all parts of a split, read as one.

    Its path, and what is kept of the backbone, are those of the first.
    """

    joined: tuple[Entry, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, parts: Sequence[Entry], limit: int | None = None) -> "JoinedEntry":
        """Join the entries of the parts in their order, which hold the same arrays and layers.

        Args:
            parts: the entries.
            limit: N where they are the first N examples of the split; None if they are all.
        """
        first = parts[0]
        manifests = [part.manifest for part in parts]
        slots = list(map(_slots, parts))
        arrays = {
            name: JoinedArray([part.arrays[name] for part in parts], [of[column] for of in slots])
            for column, names in STARTS.items()
            for name in names
            if name in first.arrays
        }
        counts = {
            name: sum(of.counts.get(name, 0) for of in manifests) for name in manifests[0].counts
        }
        manifest = replace(
            first.manifest,
            key=digest([of.key for of in manifests]),
            request={
                **first.manifest.request,
                "text": digest([of.request["text"] for of in manifests]),
            },
            counts=counts,
            extra={**first.manifest.extra, "limit": limit},
        )
        return cls(first.path, manifest, arrays, first.folder, tuple(parts))

    @property
    def parts(self) -> tuple[Entry, ...]:
        """The entries of the parts."""
        return self.joined

    @cached_property
    def examples(self) -> ExampleTable:
        """The examples of all parts, with their rows in the joined arrays.

        Raises:
            EntryError: a table is damaged, or two parts have an example of the same id.
        """
        rows = dict.fromkeys(STARTS, 0)
        tables, before, names = [], list[Mapping[str, int]](), list[set[str]]()
        for part in self.parts:
            table = read_examples(part.folder, part.manifest).table
            names.append({*table.column_names})
            kept = table.select([name for name in _KEPT if name in table.column_names])
            tables.append(_moved(kept, rows))
            before.append(rows)
            rows = {column: rows[column] + slots for column, slots in _slots(part).items()}
        slim = pa.concat_tables(tables, promote_options="default")
        common = frozenset(set.intersection(*names))
        joined = JoinedExamples(slim, self.parts, tuple(before), common)
        if len(set(joined.ids)) < len(joined):
            raise EntryError(
                f"{self.path.parent}: examples of two parts of {self.manifest.split} have the same "
                "id. Give each its own in the text, and extract again."
            )
        return joined
