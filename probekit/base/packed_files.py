"""Packed files of anybody's, Parquet and gzip, read in no more memory than what they hold can need.

A file of a few bytes can say that it holds billions of equal values, or unpack to zeros without
end. So counts are compared with the size of the file before anything is read, and the bytes of what
is read with it meanwhile.
"""

import gzip
import io
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_PER_BYTE, _FREE_VALUES = 16, 2**20
"""Most values of a file, in all columns: so many for each of its bytes, and so many more."""

_GROWTH, _FREE_BYTES = 128, 2**26
"""Most bytes of what is read: so many for each byte of the file, and so many more."""

_ROWS = 2**8
"""Rows that are read at a time."""


def most_unpacked(nbytes: int) -> int:
    """Return how many bytes a file of ``nbytes`` may unpack to."""
    return _GROWTH * nbytes + _FREE_BYTES


def unpack_gzip(packed: bytes) -> bytes:
    """Unpack what gzip packed.

    Raises:
        ValueError: it is damaged, or unpacks to far more than its size allows.
    """
    most = most_unpacked(len(packed))
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"not a readable gzip file ({error})") from error
    if len(content) > most:
        raise ValueError(f"unpacked it is more than {most:,} bytes, nearly all the same")
    return content


def check_count(values: int, nbytes: int) -> None:
    """Check that a file can hold so many values.

    Raises:
        ValueError: they cannot differ from each other.
    """
    if values > _PER_BYTE * nbytes + _FREE_VALUES:
        raise ValueError(f"it says that its {nbytes:,} bytes hold {values:,} values")


def read_parquet(
    source: Path | bytes, unread: Collection[str] = (), *, rows: range | None = None
) -> "pa.Table":
    """Read a Parquet file, and compare its pages with their checksums where it has some.

    Args:
        source: the file, or its bytes.
        unread: columns to leave out.
        rows: those that are read, one after the other; all if None.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: it cannot be read.
        ValueError: it is damaged, or says that it holds far more than its size allows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    opened = pa.BufferReader(source) if isinstance(source, bytes) else pa.OSFile(str(source))
    try:
        with opened as raw, pq.ParquetFile(raw, page_checksum_verification=True) as file:
            check_count(max(_count_values(raw), file.metadata.num_rows), raw.size())
            return _read_columns(file, raw.size(), unread, rows)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error
    finally:
        pa.default_memory_pool().release_unused()  # what decoding took, tens of MiB


def _read_columns(
    file: "pq.ParquetFile", nbytes: int, unread: Collection[str], rows: range | None
) -> "pa.Table":
    import pyarrow as pa

    fields = [field for field in file.schema_arrow if field.name not in unread]
    schema = pa.schema(map(_spelled_out, fields), file.schema_arrow.metadata)
    batches, held = [], 0
    for read in _batches(file, schema.names if unread else None, rows):
        batch = read.cast(schema)
        batches.append(batch)
        held += batch.nbytes
        if held > most_unpacked(nbytes):
            raise ValueError(
                f"its {nbytes:,} bytes hold more than {held:,} bytes of values, nearly all the same"
            )
    return pa.Table.from_batches(batches, schema)


def _batches(
    file: "pq.ParquetFile", columns: list[str] | None, rows: range | None
) -> "Iterator[pa.RecordBatch]":
    """Yield the rows, those of other row groups unread."""
    if rows is None:
        yield from file.iter_batches(_ROWS, columns=columns)
        return
    about = file.metadata
    sizes = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
    bounds = list(accumulate(sizes, initial=0))
    touched = [n for n in range(len(sizes)) if bounds[n] < rows.stop and rows.start < bounds[n + 1]]
    at = bounds[touched[0]]
    for batch in file.iter_batches(_ROWS, touched, columns=columns):
        if at >= rows.stop:
            break
        first, stop = max(rows.start - at, 0), min(rows.stop - at, len(batch))
        if first < stop:
            yield batch.slice(first, stop - first)
        at += len(batch)


def _count_values(raw: "pa.NativeFile") -> int:
    """Return how many values an open file says that all its columns hold.

    Arrow, asked for these numbers, ends the process where some other number of a column is damaged.
    """
    raw.seek(raw.size() - 8)
    nbytes = int.from_bytes(raw.read(4), "little")
    raw.seek(raw.size() - 8 - nbytes)
    try:
        groups = _Footer(raw.read(nbytes)).value(_STRUCT)[4]
        return sum(column.get(3, {}).get(5, 0) for group in groups for column in group[1])
    except (LookupError, AttributeError, TypeError, RecursionError):
        raise ValueError("its footer is damaged") from None


_STRUCT = 12


@dataclass
class _Footer:
    """What describes a Parquet file, in Thrift's compact protocol.

    Attributes:
        data: its bytes.
        at: where the next value begins.
    """

    data: bytes
    at: int = 0

    def value(self, kind: int) -> Any:
        """Read a value: a number, a list, or the fields of a struct by number; none of others."""
        if kind in (3, 4, 5, 6):
            return self._byte() if kind == 3 else self._signed()
        if kind in (7, 8):  # a float, a text
            nbytes = 8 if kind == 7 else self._number()
            self.at += nbytes
            return None
        if kind in (9, 10):
            head = self._byte()
            count = self._number() if head >> 4 == 15 else head >> 4
            if count > len(self.data) - self.at:
                raise IndexError
            # a truth value takes a byte here
            return [self.value(max(head & 15, 3)) for _ in range(count)]
        if kind != _STRUCT:
            raise TypeError
        fields, number = dict[int, Any](), 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = None if head & 15 in (1, 2) else self.value(head & 15)
        return fields

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _number(self) -> int:
        number = 0
        for index in range(10):
            byte = self._byte()
            number |= (byte & 127) << 7 * index
            if byte < 128:
                return number
        raise IndexError

    def _signed(self) -> int:
        number = self._number()
        return number >> 1 ^ -(number & 1)


def _spelled_out(field: "pa.Field") -> "pa.Field":
    """Return a column with its values in place of numbers in a dictionary."""
    from pyarrow.types import is_dictionary

    return field.with_type(field.type.value_type) if is_dictionary(field.type) else field
