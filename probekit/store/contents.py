"""What an entry's folder holds besides chunks: every file, with its size and checksum."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from probekit.store.backends.base import ChunkPlaces
from probekit.store.checksums import file_checksum
from probekit.store.entry_names import BUILDING, MANIFEST


def other_files(folder: Path, places: Iterable[ChunkPlaces]) -> dict[str, dict[str, Any]]:
    """Return bytes and checksum of each file that is not of chunks alone, by its path inside.

    The manifest is left out, and so is what a kill left of the building. Of a file that holds
    chunks among other things, such as HDF5's, the checksum is that of the other things.

    Args:
        folder: the entry's folder.
        places: of all its stored arrays.
    """
    chunks, alone = _spans(places)
    found = {}
    for file in _files(folder):
        if str(file) not in alone:
            gaps = _gaps(chunks.get(str(file), []), os.lstat(file).st_size)
            sums = {"nbytes": os.lstat(file).st_size, "xxh128": file_checksum(file, gaps)}
            found[file.relative_to(folder).as_posix()] = sums
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Yield every file of an entry, and every link that leads out of it."""
    for inside, folders, files in os.walk(folder):
        if Path(inside) == folder:
            folders[:] = [name for name in folders if name != BUILDING]
            files = [name for name in files if name != MANIFEST]
        linked = [name for name in folders if os.path.islink(os.path.join(inside, name))]
        yield from (Path(inside, name) for name in sorted([*files, *linked]))


def _spans(
    places: Iterable[ChunkPlaces],
) -> tuple[Mapping[str, list[tuple[int, int]]], set[str]]:
    """Return where chunks begin and end in shared files, and the files of chunks alone."""
    shared: dict[str, list[tuple[int, int]]] = {}
    alone: set[str] = set()
    for place in places:
        if place.tail is not None:
            alone.update(place.files)
            continue
        for index, offset in zip(
            place.file_index.ravel().tolist(), place.offsets.ravel().tolist(), strict=True
        ):
            span = offset, offset + place.array.chunk_nbytes
            shared.setdefault(place.files[index], []).append(span)
    return shared, alone


def _gaps(spans: list[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Yield what lies between some spans of a file."""
    start = 0
    for first, last in [*sorted(spans), (size, size)]:
        if first > start:
            yield start, first
        start = max(start, last)
