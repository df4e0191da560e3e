"""Files that are too large to be read at once, cut into parts that are read as files are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import xxhash

from probekit.base.packed_files import check_count, most_unpacked
from probekit.errors import DataError

PART_BYTES = 2**23
"""About the bytes of one part; reading and tokenising them takes some 15 times as much memory."""

AT_ONCE = 3 * PART_BYTES
"""Bytes of a split up to which it is read at once."""

_HEAD_BYTES = 2**16
"""Bytes of a table in which its first example stands."""

_BLOCK = 2**22

_PACKED = 4
"""About how many times as large packed text becomes."""


@dataclass(frozen=True)
class FilePart:
    """A run of the lines, or of the rows, of a file.

    Attributes:
        path: the file.
        start: its first byte, or row.
        stop: one past its last.
        nbytes: about how many bytes it takes.
        head: the lines of a table before its first example, which every part begins with.
        headless: whether no row of a table names its columns.
    """

    path: Path
    start: int
    stop: int
    nbytes: int
    head: bytes = b""
    headless: bool = False

    def __str__(self) -> str:
        """Return the file's path and, since lines are counted from there, where the part begins."""
        head = "header, then " if self.head else ""
        return f"{self.path} ({head}from {self.start:,} on)" if self.start else str(self.path)

    def __truediv__(self, name: str) -> Path:
        """Return what lies in the file, where that is a folder."""
        return self.path / name

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def suffix(self) -> str:
        """The file's suffix."""
        return self.path.suffix

    @property
    def parent(self) -> Path:
        """The file's folder."""
        return self.path.parent

    def is_dir(self) -> bool:
        """Say whether the file is a folder."""
        return self.path.is_dir()

    def is_file(self) -> bool:
        """Say whether the file is there."""
        return self.path.is_file()

    def read_bytes(self) -> bytes:
        """Return its lines, encoded, the head before them."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            lines = file.read(self.stop - self.start)
        return self.head + lines if self.start else lines


File = Path | FilePart
"""What a format's reader takes."""


def line_parts(path: Path) -> list[FilePart]:
    """Cut a file with an example in each line."""

    def pass_over(file: BinaryIO, target: int) -> None:
        file.seek(max(target, file.tell()))
        file.readline()

    return _byte_parts(path, pass_over)


def paragraph_parts(path: Path) -> list[FilePart]:
    """Cut running text at blank lines."""

    def pass_over(file: BinaryIO, target: int) -> None:
        file.seek(max(target, file.tell()))
        line = file.readline()  # the rest of one
        while line and (line := file.readline()).strip():
            pass

    return _byte_parts(path, pass_over)


def table_parts(path: Path, head_of: Callable[[FilePart], int]) -> list[FilePart]:
    """Cut a table between two rows.

    Args:
        path: the file.
        head_of: returns how many lines stand before the first example of a part; -1 of none.

    Raises:
        DataError: there is no example in the file's first lines.
    """
    rows = _Rows if path.suffix.lower() == ".csv" else partial(_Rows, mark=b"")
    first = FilePart(path, 0, _cuts(path, [_HEAD_BYTES], rows())[0], _HEAD_BYTES)
    if (count := head_of(first)) < 0:
        raise DataError(
            f"{path}: its first {first.stop:,} bytes hold no example, and so large a table has to "
            "begin with one: remove the blank lines there."
        )
    lines = first.read_bytes().split(b"\n")[:count]
    named = any(line.strip() and b"sep=" not in line[:5] for line in lines)
    head = b"".join(line + b"\n" for line in lines)
    return [replace(part, head=head, headless=not named) for part in _byte_parts(path, rows())]


class _Rows:
    """Passes over rows of a table, whose cells may hold line feeds between quotation marks."""

    def __init__(self, mark: bytes = b'"') -> None:
        """Begin outside of them; without a mark there are none."""
        self._mark, self._inside = mark, False

    def __call__(self, file: BinaryIO, target: int) -> None:
        """Read on to the end of a row behind a target."""
        while (left := target - file.tell()) > 0:
            self._read(file.read(min(left, _BLOCK)))
        while (line := file.readline()) and self._read(line):
            pass

    def _read(self, content: bytes) -> bool:
        """Take in what was read, and say whether it ends between quotation marks."""
        if self._mark:
            self._inside ^= content.count(self._mark) % 2 == 1
        return self._inside


def parquet_parts(path: Path) -> list[FilePart]:
    """Cut a Parquet file between two rows.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged, or says that it holds far more than its size allows.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        about, nbytes = file.metadata, path.stat().st_size
        check_count(about.num_rows, nbytes)
        groups = range(about.num_row_groups)
        unpacked = sum(about.row_group(number).total_byte_size for number in groups)
        return _row_parts(path, about.num_rows, min(unpacked, most_unpacked(nbytes)))


def saved_parts(path: Path) -> list[FilePart]:
    """Cut what ``Dataset.save_to_disk`` of the ``datasets`` library wrote between two rows."""
    import datasets

    dataset = datasets.load_from_disk(path)
    return _row_parts(path, len(dataset), dataset.data.nbytes)


def _row_parts(path: Path, n_rows: int, nbytes: int) -> list[FilePart]:
    count = max(min(round(nbytes / PART_BYTES), n_rows), 1)
    bounds = [number * n_rows // count for number in range(count + 1)]
    return [FilePart(path, *bound, nbytes // count) for bound in pairwise(bounds)]


def grouped(parts: Sequence[File]) -> list[tuple[File, ...]]:
    """Put small files that follow one another together."""
    groups: list[list[File]] = []
    room = 0
    for part in parts:
        if size_of(part) > room or not groups:
            groups.append([])
            room = PART_BYTES
        groups[-1].append(part)
        room -= size_of(part)
    return list(map(tuple, groups))


def size_of(path: File) -> int:
    """Return about how many bytes a file takes unpacked, or all files in a folder."""
    if isinstance(path, FilePart):
        return path.nbytes
    if path.is_dir():
        return sum(map(size_of, path.iterdir()))
    if not path.is_file():  # what reads it says so
        return 0
    return path.stat().st_size * (_PACKED if path.suffix.lower() == ".gz" else 1)


@dataclass(frozen=True)
class Stamp:
    """A file as it is now: what is known of it holds for as long as this.

    Attributes:
        path: the file, or a folder of files.
        seen: size and time of the last change of each.
    """

    path: Path
    seen: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        """Look at a file, or at those in a folder."""
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        return cls(path, tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files))

    @property
    def hash(self) -> str:
        """Hash of the file's bytes, or of those of all files in the folder."""
        return _content_hash(self)


@lru_cache(maxsize=4096)
def _content_hash(file: Stamp) -> str:
    hashed, path = xxhash.xxh3_128(), file.path
    for inside in sorted(path.iterdir()) if path.is_dir() else [path]:
        with inside.open("rb") as opened:
            for block in iter(partial(opened.read, _BLOCK), b""):
                hashed.update(block)
    return hashed.hexdigest()


def _byte_parts(path: Path, pass_over: Callable[[BinaryIO, int], object]) -> list[FilePart]:
    """Cut a file of lines into parts of about equal size.

    Args:
        path: the file.
        pass_over: reads on to where a part may end, behind a target.
    """
    size = path.stat().st_size
    count = max(round(size / PART_BYTES), 1)
    targets = [number * PART_BYTES for number in range(1, count)]  # what is appended moves none
    cuts = _cuts(path, targets, pass_over)
    bounds = sorted({0, *cuts, size})
    return [FilePart(path, *bound, bound[1] - bound[0]) for bound in pairwise(bounds)]


def _cuts(
    path: Path, targets: Sequence[int], pass_over: Callable[[BinaryIO, int], object]
) -> list[int]:
    """Return where a file may be cut behind some targets."""
    cuts = []
    with path.open("rb") as file:
        for target in targets:
            pass_over(file, target)
            cuts.append(file.tell())
    return cuts
