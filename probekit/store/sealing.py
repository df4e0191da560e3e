"""Seal an entry: write its tables, small files and manifest, and rename it into place."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

import pyarrow as pa

from probekit.store.files import sync_path, write_whole
from probekit.store.manifest import Manifest
from probekit.store.marks import ChunkSum
from probekit.store.names import BACKBONE, CHECKSUMS, EXAMPLES, MANIFEST, REPLACED
from probekit.store.tables import CHECKSUM_SCHEMA, example_schema, table_bytes


def write_sealed(
    folder: Path,
    manifest: Manifest,
    examples: pa.Table,
    files: Mapping[str, bytes],
    chunks: Sequence[ChunkSum],
) -> None:
    """Write everything but the arrays into an entry folder, the manifest last, and sync it."""
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
    write_whole(folder / MANIFEST, manifest.to_json().encode(), sync=True)
    sync_path(folder)


def install(partial: Path, path: Path) -> None:
    """Rename a sealed folder to its final name, replacing an entry that is there."""
    replaced = path.with_name(path.name + REPLACED)
    if path.exists():
        path.rename(replaced)
    partial.rename(path)
    sync_path(path.parent)
    shutil.rmtree(replaced, ignore_errors=True)
