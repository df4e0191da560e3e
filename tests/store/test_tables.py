"""Example tables with and without the columns that only some entries need."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from probekit.base.kinds import STREAM_ARRAYS
from probekit.base.layers import POINTS
from probekit.base.packed_files import read_parquet
from probekit.errors import EntryError
from probekit.store.files import checksum
from probekit.store.tables import (
    EXAMPLE_SCHEMA,
    OPTIONAL_SCHEMA,
    ExampleTable,
    example_schema,
    read_table,
    table_bytes,
)

README = Path(__file__).parents[2] / "cache" / "README.md"
BASE = {
    "id": ["a", "b"], "words": [[], []], "row_start": [0, 2], "n_rows": [2, 1],
    "valid": [[True, True], [False]], "token_start": [-1, -1], "n_tokens": [3, 2],
    "subwords": [[1, 2, 3], [4, 5]], "word_map": [[-1, 0, 1], [0, -1]], "windows": [[3], [2]],
}  # fmt: skip
MORE = {
    "text": ["one", "two"], "text_pair": ["three", None], "pooled_start": [0, 16],
    "token_types": [[0, 0, 1], [0, 0]], "targets": [[7, 8], [9]],
    "kept": [[True, False, True], [False, True]],
}  # fmt: skip


def test_absent_columns_are_null():
    table = ExampleTable.from_columns(BASE)
    assert table.table.schema == EXAMPLE_SCHEMA
    assert table.texts == [(None, None)] * 2
    assert table.pooled_start.tolist() == [-1, -1]
    assert not any(map(table.has, MORE))
    with pytest.raises(EntryError, match="not a language-modelling entry"):
        _ = table.targets


def test_present_columns_come_back():
    table = ExampleTable.from_columns(dict(reversed((BASE | MORE).items())))
    assert table.table.column_names == [*EXAMPLE_SCHEMA.names, *OPTIONAL_SCHEMA.names]
    assert table.texts == [("one", "three"), ("two", None)]
    assert table.pooled_start.tolist() == [0, 16] and table.pooled_start.flags.writeable
    assert table.targets.tolist() == [7, 8, 9] and table.targets.dtype == np.int32


@pytest.mark.parametrize("extra", [(), ("text",), tuple(MORE)])
def test_a_file_holds_the_columns_it_was_given(tmp_path, extra):
    """One of a later version is left out."""
    columns = BASE | {name: MORE[name] for name in extra}
    made = ExampleTable.from_columns(columns).table
    later = made.append_column("later", pa.array([1, 2]))
    (tmp_path / "x.parquet").write_bytes(table_bytes(later))
    found = read_table(tmp_path / "x.parquet", EXAMPLE_SCHEMA, OPTIONAL_SCHEMA)
    assert found.equals(made) and found.schema == example_schema(columns)


def test_the_specification_names_every_column_and_array():
    text = README.read_text("utf-8")
    for name in (*EXAMPLE_SCHEMA.names, *OPTIONAL_SCHEMA.names, *STREAM_ARRAYS, *POINTS):
        assert f"`{name}`" in text, name


SLOTS = {"words": 16, "tokens": 32, "cls": 32}
KEPT = BASE | MORE | {"token_start": [0, 3]}


def test_rows_that_there_are():
    ExampleTable.from_columns(KEPT).check(SLOTS, "examples.parquet")
    ExampleTable.from_columns(BASE | {"row_start": [90, 2]}).check({"tokens": 32}, "e")


@pytest.mark.parametrize(
    "changes",
    [
        {"row_start": [0, 16]}, {"row_start": [0, -2]}, {"row_start": [2**63 - 1, 0]},
        {"n_rows": [3, 0]}, {"n_rows": [2**31 - 1, 1]}, {"n_rows": [4, -1]},
        {"valid": [[True], [True]]}, {"valid": [[True, True], [None]]}, {"n_tokens": [30, 30]},
        {"token_start": [0, None]}, {"pooled_start": [0, 32]}, {"words": [None, []]},
        {"subwords": [[1, None, 3], [4, 5]]}, {"id": ["a", None]},
    ],
    ids=str,
)  # fmt: skip
def test_rows_that_there_are_not(changes):
    with pytest.raises(EntryError, match=r"examples\.parquet: .* with --overwrite"):
        ExampleTable.from_columns(KEPT | changes).check(SLOTS, "examples.parquet")


def test_flips_of_a_table_end_in_an_error_or_in_nothing():
    """Arrow aborts the process where it is asked about some damaged footers."""
    whole = bytearray(table_bytes(ExampleTable.from_columns(BASE).table))
    for at in range(len(whole) // 2, len(whole), 3):  # the footer is there
        flipped = bytearray(whole)
        flipped[at] ^= 16
        with suppress(ValueError, OSError):
            read_parquet(bytes(flipped))


def test_a_table_is_as_it_was_written(tmp_path):
    file = tmp_path / "examples.parquet"
    file.write_bytes(table_bytes(ExampleTable.from_columns(BASE).table))
    assert read_table(file, EXAMPLE_SCHEMA, written=checksum(file.read_bytes())).num_rows == 2
    with pytest.raises(EntryError, match=r"examples\.parquet has changed since it was written"):
        read_table(file, EXAMPLE_SCHEMA, written=checksum(b""))
