"""Verify an entry: every stored chunk against its checksum."""

from collections.abc import Iterator
from pathlib import Path

from probekit.errors import EntryError
from probekit.progress import ProgressBar
from probekit.registry import choose
from probekit.store.backends import BACKENDS
from probekit.store.checksums import DamagedChunk, damaged_chunks
from probekit.store.entry import read_manifest
from probekit.store.manifest import Manifest
from probekit.store.marks import ChunkSum
from probekit.store.names import CHECKSUMS
from probekit.store.tables import CHECKSUM_SCHEMA, read_table


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
    backend = choose("backend", manifest.backend, BACKENDS)
    places = {
        plain.name: backend.places(path / backend.filename, plain)
        for spec in manifest.arrays
        for plain in spec.plain()
    }
    with ProgressBar(total=len(chunks), desc=path.name, unit="chunk", shown=progress) as bar:
        return list(damaged_chunks(chunks, places, bar.update))


def read_checksums(path: Path, manifest: Manifest) -> list[ChunkSum]:
    """Return the checksums of an entry, one for every chunk of its arrays.

    Raises:
        EntryError: the table is missing or damaged, or lists other chunks.
    """
    columns = read_table(path / CHECKSUMS, CHECKSUM_SCHEMA).to_pydict()
    rows = zip(*(columns[name] for name in CHECKSUM_SCHEMA.names), strict=True)
    chunks = [ChunkSum(*row) for row in rows]
    if sorted((c.array, c.row_chunk, c.layer_index) for c in chunks) != sorted(_grid(manifest)):
        raise EntryError(
            f"{path / CHECKSUMS} does not list the chunks of the manifest's arrays, each once. "
            "Extract the entry again with --overwrite."
        )
    return chunks


def _grid(manifest: Manifest) -> Iterator[tuple[str, int, int]]:
    for spec in manifest.arrays:
        for plain in spec.plain():
            rows, layers = plain.grid
            yield from ((plain.name, i, at) for i in range(rows) for at in range(layers))
