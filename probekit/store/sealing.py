"""Seal an entry: write its tables, small files and manifest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path

import pyarrow as pa

from probekit.store.backends import ChunkPlaces
from probekit.store.contents import other_files
from probekit.store.entry_names import BACKBONE, CHECKSUMS, EXAMPLES, MANIFEST
from probekit.store.files import sync_path, write_whole
from probekit.store.manifest import Manifest
from probekit.store.marks import ChunkSum
from probekit.store.tables import CHECKSUM_SCHEMA, example_schema, table_bytes


def write_sealed(
    folder: Path,
    manifest: Manifest,
    examples: pa.Table,
    files: Mapping[str, bytes],
    chunks: Sequence[ChunkSum],
    places: Iterable[ChunkPlaces],
) -> None:
    """Write everything but the arrays into an entry folder, the manifest last, and sync it.

    Args:
        folder: the entry under construction, with its arrays.
        manifest: describes it; its ``files`` are filled in.
        examples: the example table.
        files: contents of ``backbone/`` by file name.
        chunks: the checksums of all chunks.
        places: where they lie.
    """
    for left in [*folder.glob("*.new"), *(folder / BACKBONE).glob("*.new")]:
        left.unlink()  # of a run that was killed while it sealed
    columns = list(zip(*map(astuple, sorted(chunks, key=astuple)), strict=True))
    checksums = pa.table(
        dict(zip(CHECKSUM_SCHEMA.names, columns, strict=True)), schema=CHECKSUM_SCHEMA
    )
    write_whole(folder / CHECKSUMS, table_bytes(checksums), sync=True)
    examples = examples.cast(example_schema(examples.column_names))
    write_whole(folder / EXAMPLES, table_bytes(examples), sync=True)
    (folder / BACKBONE).mkdir(exist_ok=True)
    for name, data in files.items():
        write_whole(folder / BACKBONE / name, data, sync=True)
    sync_path(folder / BACKBONE)
    manifest = replace(manifest, files=other_files(folder, places))
    write_whole(folder / MANIFEST, manifest.to_json().encode(), sync=True)
    sync_path(folder)
