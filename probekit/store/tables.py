"""The tables of an entry: examples.parquet and checksums.parquet."""

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int64

from probekit.base.kinds import ARRAYS, STREAM_ARRAYS
from probekit.base.numbers import bounds_of, ragged_arange
from probekit.base.packed_files import read_parquet
from probekit.errors import EXTRACT_AGAIN, EntryError, reason_of
from probekit.store.files import checksum

EXAMPLE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("words", pa.list_(pa.string())),
        ("row_start", pa.int64()),
        ("n_rows", pa.int32()),
        ("valid", pa.list_(pa.bool_())),
        ("token_start", pa.int64()),
        ("n_tokens", pa.int32()),
        ("subwords", pa.list_(pa.int32())),
        ("word_map", pa.list_(pa.int32())),
        ("windows", pa.list_(pa.int32())),
    ]
)

OPTIONAL_SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("text_pair", pa.string()),
        ("pooled_start", pa.int64()),
        ("token_types", pa.list_(pa.int32())),
        ("targets", pa.list_(pa.int32())),
        ("kept", pa.list_(pa.bool_())),
    ]
)
"""Columns that only those entries have which need them; an absent one is null, or -1."""

CHECKSUM_SCHEMA = pa.schema(
    [
        ("array", pa.string()),
        ("row_chunk", pa.int64()),
        ("layer_index", pa.int64()),
        ("nbytes", pa.int64()),
        ("xxh128", pa.string()),
    ]
)


_COUNTED = {
    "row_start": ("word", "prediction"),
    "token_start": ("subword",),
    "pooled_start": ("text",),
}
STARTS = {
    column: tuple(name for name, array in ARRAYS.items() if array.per in counted)
    for column, counted in _COUNTED.items()
}
"""Which column tells the first row of each example in which arrays."""


@dataclass(frozen=True)
class ExampleTable:
    """The examples of an entry, in data-set order.

    Attributes:
        table: the Arrow table, with the columns of `EXAMPLE_SCHEMA` and some, all or none of
            `OPTIONAL_SCHEMA`.
    """

    table: pa.Table

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Sequence[Any] | np.ndarray | pa.Array]
    ) -> "ExampleTable":
        """Build the table from one sequence per column."""
        return cls(pa.table(dict(columns), schema=example_schema(columns)))

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column, one value per example."""
        return self.table[name]

    def take(self, positions: Int64[np.ndarray, " examples"]) -> "ExampleTable":
        """Return some examples.

        Args:
            positions: theirs, ascending.
        """
        return ExampleTable(self.table.take(pa.array(positions)))

    def __len__(self) -> int:
        """Return N, the number of examples."""
        return int(self.table.num_rows)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The example ids."""
        return tuple(self.table["id"].to_pylist())

    @cached_property
    def row_start(self) -> np.ndarray:
        """First row of each example in ``words`` or ``predicted``, int64 (N,); -1 for none."""
        return self.flat("row_start")

    @cached_property
    def n_rows(self) -> np.ndarray:
        """Rows of each example in ``words`` or ``predicted``, int32 (N,)."""
        return self.flat("n_rows")

    @cached_property
    def token_start(self) -> np.ndarray:
        """First row of each example in ``tokens``, int64 (N,); -1 where none are kept."""
        return self.flat("token_start")

    @cached_property
    def n_tokens(self) -> np.ndarray:
        """Subwords of each example over all its windows, int32 (N,)."""
        return self.flat("n_tokens")

    @cached_property
    def n_token_rows(self) -> Int64[np.ndarray, " examples"]:
        """Rows of each example in ``tokens``, int64 (N,): its subwords, or those that are kept."""
        if not self.has("kept"):
            return self.n_tokens.astype(np.int64)
        kept = bounds_of(self.flat("kept").astype(np.int64))
        return np.diff(kept[bounds_of(self.n_tokens)])

    @cached_property
    def pooled_start(self) -> np.ndarray:
        """Row of each example in ``cls``, ``mean`` and ``last``, int64 (N,); -1 if none is kept."""
        if not self.has("pooled_start"):
            return np.full(len(self), -1, np.int64)
        return self.flat("pooled_start").copy()  # Arrow's own memory is read-only

    def starts(self, array: str) -> np.ndarray:
        """Return the first row of each example in an array, int64 (N,); -1 for none.

        Raises:
            EntryError: no column tells it.
        """
        for column, arrays in STARTS.items():
            if array in arrays:
                column_starts: np.ndarray = getattr(self, column)
                return column_starts
        raise EntryError(f"no column says which rows of array {array!r} belong to which example.")

    @cached_property
    def texts(self) -> list[tuple[str | None, str | None]]:
        """Text and second text of each example; None for words, and for a text without a pair."""
        columns = [
            self.column(name).to_pylist() if self.has(name) else [None] * len(self)
            for name in ("text", "text_pair")
        ]
        return list(zip(*columns, strict=True))

    @cached_property
    def targets(self) -> np.ndarray:
        """Vocabulary id that each row of ``predicted`` is to predict, int32, concatenated.

        Raises:
            EntryError: the entry is not one of language modelling.
        """
        if not self.has("targets"):
            raise EntryError("this entry has no targets: it is not a language-modelling entry.")
        return self.flat("targets")

    @cached_property
    def valid(self) -> np.ndarray:
        """Valid flag of every row, bool (sum of n_rows,), examples concatenated."""
        return self.flat("valid")

    @cached_property
    def rows(self) -> np.ndarray:
        """Row number of every word or prediction, int64 (sum of n_rows,), examples concatenated."""
        return ragged_arange(self.row_start, self.n_rows)

    def has(self, column: str) -> bool:
        """Say whether the table has an optional column."""
        return column in self.table.column_names

    def flat(self, column: str) -> np.ndarray:
        """Return a column, lists with their examples concatenated.

        Arrow's ``to_numpy`` of numbers and truth values would import pandas.
        """
        values = self.column(column).combine_chunks()
        if pa.types.is_list(values.type):
            values = values.flatten()
        if pa.types.is_string(values.type):
            return values.to_numpy(zero_copy_only=False)
        if pa.types.is_boolean(values.type):
            return np.from_dlpack(values.cast(pa.uint8())).view(bool)
        return np.from_dlpack(values)

    def words(self, index: int) -> tuple[str, ...]:
        """Return the words of one example; none for a text."""
        return tuple(self.column("words")[index].as_py())

    def check(self, rows: Mapping[str, int], where: str) -> None:
        """Check that the table tells of rows that there are, before memory is taken for them.

        Args:
            rows: row slots of the entry's arrays.
            where: the file, for the message.

        Raises:
            EntryError: something is not said, or of rows that there are not.
        """
        present = sorted({*EXAMPLE_SCHEMA.names, *filter(self.has, (*STARTS, "kept"))})
        columns = {name: self.table[name].combine_chunks() for name in present}
        damaged = [
            name
            for name, values in columns.items()
            if values.null_count or (pa.types.is_list(values.type) and values.flatten().null_count)
        ]
        if not damaged:
            stated = {"valid": self.n_rows, "subwords": self.n_tokens, "word_map": self.n_tokens}
            stated |= {"kept": self.n_tokens} if self.has("kept") else {}
            damaged = [
                name
                for name, counts in stated.items()
                if (np.from_dlpack(columns[name].value_lengths()) != counts).any()
            ]
        if damaged:
            raise EntryError(f"{where}: column {damaged[0]!r} is damaged. {EXTRACT_AGAIN}")
        once = np.ones(len(self), np.int32)
        counted = zip(STARTS.items(), (self.n_rows, self.n_token_rows, once), strict=True)
        for (column, names), counts in counted:
            starts = getattr(self, column)
            slots = min((rows[name] for name in names if name in rows), default=None)
            # not a sum, which wraps around where the numbers are large
            last = None if slots is None else slots - counts.astype(np.int64)
            if last is not None and ((counts < 0) | (starts < -1) | (starts > last)).any():
                named = " or ".join(name for name in names if name in STREAM_ARRAYS)
                raise EntryError(
                    f"{where}: an example points to rows that {named} does not have. "
                    f"{EXTRACT_AGAIN}"
                )


def table_bytes(table: pa.Table) -> bytes:
    """Return a table as Parquet, with page checksums so that damage is noticed on reading."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def example_schema(names: Iterable[str]) -> pa.Schema:
    """Return the schema of an example table whose columns have these names, in its own order."""
    present = set(names)
    return pa.schema([*EXAMPLE_SCHEMA, *(item for item in OPTIONAL_SCHEMA if item.name in present)])


def read_table(
    path: Path,
    schema: pa.Schema,
    optional: pa.Schema | None = None,
    written: str = "",
    unread: Collection[str] = (),
) -> pa.Table:
    """Read a Parquet file that must have at least the columns of ``schema``.

    Args:
        path: the file.
        schema: columns to read; others are left out.
        optional: columns to read as well where the file has them.
        written: its checksum, where it is known.
        unread: columns that are not decoded.

    Raises:
        EntryError: the file is missing or damaged, or a column is missing or of another type.
    """
    try:
        data = path.read_bytes()
        if written and checksum(data) != written:
            raise EntryError(f"{path} has changed since it was written. {EXTRACT_AGAIN}")
        table = read_parquet(data, unread)
        there = [item for item in optional or () if item.name in table.column_names]
        schema = pa.schema([*schema, *there])
        return table.select(schema.names).cast(schema)
    except FileNotFoundError:
        raise EntryError(f"{path} is missing: the entry is damaged. {EXTRACT_AGAIN}") from None
    except EntryError:
        raise
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise EntryError(f"{path} cannot be read ({reason_of(error)}). {EXTRACT_AGAIN}") from None
