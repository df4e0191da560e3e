"""List, describe, select and check the entries of a cache."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from probekit.backbone.remembered import identity_at
from probekit.errors import EntryError, EntryNotFoundError, OptionError
from probekit.quantities import human_bytes
from probekit.store.checksums import DamagedChunk
from probekit.store.entry import Entry, read_manifest
from probekit.store.files import disk_bytes
from probekit.store.find import Wanted, names_entry
from probekit.store.labels import label_columns
from probekit.store.layout import EntryFolder, list_entries
from probekit.store.names import MANIFEST, PARTIAL
from probekit.store.verify import verify_checksums
from probekit.tasks import is_called

logger = logging.getLogger(__name__)


def list_cache(root: Path) -> list[dict[str, Any]]:
    """Return one row per entry, unfinished ones included."""
    return [_row(folder) for folder in list_entries(root)]


def _row(folder: EntryFolder) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": folder.model,
        "task": folder.task,
        "split": folder.split,
        "key": folder.key8,
        "size": human_bytes(folder.nbytes),
        "examples": "-",
        "words": "-",
        "layers": "-",
        "dtype": "-",
        "compute": "-",
        "format": "-",
        "state": "unfinished",
    }
    if not folder.path.name.endswith(PARTIAL):
        try:
            manifest = read_manifest(folder.path)
        except EntryError as error:
            logger.warning("%s", error)
            return row | {"state": "unreadable"}
        row |= {
            "examples": manifest.counts["examples"],
            "words": manifest.counts["words"] if manifest.kind == "tagging" else "-",
            "layers": len(manifest.arrays[0].layers),
            "dtype": manifest.dtype,
            "compute": manifest.compute_dtype,
            "format": manifest.backend,
            "state": "complete",
        }
    return row


def select_folders(names: Sequence[str], root: Path) -> list[Path]:
    """Return the entry folders that the user names, finished or not.

    Args:
        names: paths or keys of entries (eight digits or more), or a model, a task and perhaps a
            split or key.
        root: the cache root.

    Raises:
        EntryNotFoundError: nothing matches.
        OptionError: more than model, task and split.
    """
    paths, folders = [Path(name) for name in names], list_entries(root)
    listed = {folder.path.resolve() for folder in folders}
    if all(_is_entry(path) or path.resolve() in listed for path in paths):
        return paths
    keyed = [_of_key(name, folders) for name in names]
    if all(keyed):
        return [path for found in keyed for path in found]
    if len(names) > 3:
        raise OptionError(f"give paths of entries, or MODEL TASK [SPLIT]; found {' '.join(names)}.")
    above = {root.resolve(), *(parent for path in listed for parent in list(path.parents)[:2])}
    written = names[0] != paths[0].name  # a path; one of the cache itself is no model
    inside = written and paths[0].resolve() in above
    model = Wanted(model=names[0], task="", identity=None if inside else identity_at(names[0]))
    named = [] if inside else model.of_model(folders)
    found = [
        folder.path
        for folder in named
        if (len(names) < 2 or is_called(folder.task, names[1]))
        and (len(names) < 3 or names[2] in (folder.split, folder.key8, folder.path.name))
    ]
    if not found:
        raise EntryNotFoundError(
            f"no cache entry matches {' '.join(names)} in {root}. `probekit cache ls` lists them."
        )
    return found


def _of_key(name: str, folders: Sequence[EntryFolder]) -> list[Path]:
    """Return the entries of a key, or of its beginning as ``cache ls`` prints it."""
    is_key = re.fullmatch(r"[0-9a-f]{8,64}", name) is not None
    return [folder.path for folder in folders if is_key and names_entry(name, folder)]


def _is_entry(path: Path) -> bool:
    return path.name.endswith(PARTIAL) or (path / MANIFEST).is_file()


def describe(path: Path) -> dict[str, Any]:
    """Return what an entry says of itself, and its size.

    Raises:
        EntryError: the entry is unfinished or damaged.
    """
    entry = Entry.open(path)
    manifest = entry.manifest
    return {
        "path": str(path),
        "size": human_bytes(disk_bytes(path)),
        "model": manifest.model_info["name"],
        "architecture": manifest.model_info["identity"]["architecture"],
        "task": manifest.task,
        "split": manifest.split,
        "origin": manifest.origin,
        "part of the split": _part(manifest.limit),
        "labels": _labels(entry),
        "arrays": ", ".join(
            f"{spec.name} {spec.rows:,} x {len(spec.layers)} x {spec.dim}"
            for spec in manifest.arrays
        ),
        "layers": ", ".join(map(str, manifest.arrays[0].layers)) + " (0 = emb)",
        "last layer": "after the final norm"
        if manifest.final_norm
        else "as the last block left it",
        "dtype": f"{manifest.dtype}, computed in {manifest.compute_dtype}",
        "pooling": manifest.pooling,
        **{name.replace("_", " "): f"{count:,}" for name, count in manifest.counts.items()},
        "max |x|": ", ".join(
            f"{x:.4g}" for x in next(iter(manifest.statistics["max_abs"].values()))
        ),
        "key": manifest.key,
        "created": manifest.created,
        "versions": ", ".join(f"{name} {found}" for name, found in manifest.versions.items()),
    }


def _part(limit: int | None) -> str:
    return "all of it" if limit is None else f"the first {limit:,} examples"


def _labels(entry: Entry) -> str:
    try:
        return ", ".join(label_columns(entry)) or "none"
    except EntryError as error:  # the entry itself is sound
        return f"unreadable: {error}"


def check_chunks(path: Path, *, progress: bool = False) -> int:
    """Recompute every checksum of an entry and return how many chunks were checked.

    Raises:
        EntryError: chunks are damaged, missing or short; the message names the first and counts
            the rest.
    """
    damaged = verify_checksums(path, progress=progress)
    if damaged:
        raise EntryError(_damage(path, damaged))
    manifest = read_manifest(path)
    return sum(
        rows * layers
        for spec in manifest.arrays
        for rows, layers in (plain.grid for plain in spec.plain())
    )


def _damage(path: Path, damaged: Sequence[DamagedChunk]) -> str:
    others = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
    return (
        f"{path}: {damaged[0]}{others}. The entry cannot be trusted: extract it again with "
        "--overwrite."
    )
