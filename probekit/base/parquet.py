"""Parquet files of anybody's, read in no more memory than what they hold can need.

A file of a few bytes can say that it holds billions of equal values. So counts are compared with
the size of the file before anything is read, and what is read with it meanwhile.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

_PER_BYTE, _FREE_VALUES = 16, 2**20
"""Most values of a file, in all columns: so many for each of its bytes, and so many more."""

_GROWTH, _FREE_BYTES = 128, 2**26
"""Most bytes of what is read: so many for each byte of the file, and so many more."""

_ROWS = 2**8
"""Rows that are read at a time."""


def check_count(values: int, nbytes: int) -> None:
    """Check that a file can hold so many values.

    Raises:
        ValueError: they cannot differ from each other.
    """
    if values > _PER_BYTE * nbytes + _FREE_VALUES:
        raise ValueError(f"it says that its {nbytes:,} bytes hold {values:,} values")


def read_parquet(
    file: pq.ParquetFile, nbytes: int, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read columns of an open Parquet file.

    Args:
        file: the file.
        nbytes: its size.
        columns: names; None is all.

    Raises:
        ValueError: it is damaged, or says that it holds far more than its size allows.
    """
    about = file.metadata
    values = sum(
        about.row_group(group).column(column).num_values
        for group in range(about.num_row_groups)
        for column in range(about.num_columns)
    )
    check_count(max(values, about.num_rows), nbytes)
    fields = [f for f in file.schema_arrow if columns is None or f.name in columns]
    schema = pa.schema(map(_spelled_out, fields), file.schema_arrow.metadata)
    batches, held = [], 0
    for read in file.iter_batches(_ROWS, columns=columns):
        batch = read.cast(schema)
        batches.append(batch)
        held += batch.nbytes
        if held > _GROWTH * nbytes + _FREE_BYTES:
            raise ValueError(
                f"its {nbytes:,} bytes hold more than {held:,} bytes of values, nearly all the same"
            )
    return pa.Table.from_batches(batches, schema)


def _spelled_out(field: pa.Field) -> pa.Field:
    """Return a column with its values in place of numbers in a dictionary."""
    kind = field.type
    return field.with_type(kind.value_type) if pa.types.is_dictionary(kind) else field
