"""Verify an entry: every file of it, and every stored chunk against its checksum."""

from collections.abc import Iterator
from pathlib import Path

from probekit.base.messages.progress import ProgressBar
from probekit.errors import EXTRACT_AGAIN, EntryError
from probekit.store.backends import ChunkPlaces, places_of
from probekit.store.checksums import DamagedChunk, damaged_chunks
from probekit.store.contents import other_files
from probekit.store.entry import manifest_text, read_manifest
from probekit.store.entry_names import CHECKSUMS, MANIFEST
from probekit.store.manifest import Manifest
from probekit.store.marks import ChunkSum
from probekit.store.tables import CHECKSUM_SCHEMA, read_table


def verify_files(path: Path) -> list[str]:
    """Return what is wrong with the files of a complete entry, but for the bytes of its chunks.

    Args:
        path: the entry's folder.

    Raises:
        EntryError: the manifest cannot be read, or the store tells of other arrays.
    """
    manifest = read_manifest(path)
    places = places_of(path, manifest.backend, manifest.arrays)
    found = other_files(path, places.values())
    wrong = [] if manifest_text(path) == manifest.to_json() else [_odd(path / MANIFEST)]
    for name in sorted({*manifest.files, *found}):
        if name not in manifest.files:
            wrong.append(f"{path / name} is no file of the entry")
        elif name not in found:
            wrong.append(f"{path / name} is missing")
        elif manifest.files[name] != found[name]:
            wrong.append(_odd(path / name))
    return wrong + [_odd(file) for place in places.values() for file in _odd_ends(place)]


def verify_checksums(path: Path, *, progress: bool = False) -> list[DamagedChunk]:
    """Return the damaged, missing and short chunks of a complete entry (none: it is whole).

    Args:
        path: the entry's folder. It is not opened as an `Entry`, which a missing chunk prevents.
        progress: show progress on stderr.

    Raises:
        EntryError: manifest, store or checksum table is missing, damaged, or lists other chunks
            than the manifest's arrays have.
    """
    manifest = read_manifest(path)
    chunks = read_checksums(path, manifest)
    places = places_of(path, manifest.backend, manifest.arrays)
    with ProgressBar(total=len(chunks), desc=path.name, unit="chunk", shown=progress) as bar:
        return list(damaged_chunks(chunks, places, bar.update))


def read_checksums(path: Path, manifest: Manifest) -> list[ChunkSum]:
    """Return the checksums of an entry, one for every chunk of its arrays.

    Raises:
        EntryError: the table is missing or damaged, or lists other chunks, or other sizes.
    """
    columns = read_table(path / CHECKSUMS, CHECKSUM_SCHEMA).to_pydict()
    rows = zip(*(columns[name] for name in CHECKSUM_SCHEMA.names), strict=True)
    chunks = [ChunkSum(*row) for row in rows]
    listed = {(c.array, c.row_chunk, c.layer_index, c.nbytes) for c in chunks}
    if len(listed) != len(chunks) or listed != set(_grid(manifest)):
        raise EntryError(
            f"{path / CHECKSUMS} does not list the chunks of the manifest's arrays, each once and "
            f"in its size. {EXTRACT_AGAIN}"
        )
    return chunks


def _grid(manifest: Manifest) -> Iterator[tuple[str, int, int, int]]:
    for spec in manifest.arrays:
        for plain in spec.plain():
            rows, layers = plain.grid
            size = plain.chunk_nbytes
            yield from ((plain.name, i, at, size) for i in range(rows) for at in range(layers))


def _odd(file: Path) -> str:
    return f"{file} is not as it was written"


def _odd_ends(places: ChunkPlaces) -> Iterator[Path]:
    """Yield the files of chunks alone that hold something else behind their last chunk."""
    if places.tail is None:
        return
    end = int(places.offsets.max()) + places.array.chunk_nbytes
    for file in map(Path, places.files):
        # one that is missing or short is told of chunk by chunk
        if file.is_file() and file.stat().st_size >= end:
            with file.open("rb") as source:
                source.seek(end)
                if source.read(len(places.tail) + 1) != places.tail:
                    yield file
