"""List, describe, select and check the entries of a cache."""

import logging
import os
import re
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from probekit.backbone.remembered import identity_at
from probekit.errors import EntryError, EntryNotFoundError, EntryVersionError, OptionError
from probekit.maintenance.stale import Stale, find_stale
from probekit.quantities import human_bytes
from probekit.registry import choose
from probekit.store.entry import Entry, read_manifest
from probekit.store.files import disk_bytes
from probekit.store.find import Wanted, names_entry
from probekit.store.labels import label_columns, label_files, read_labels
from probekit.store.layout import EntryFolder, list_entries
from probekit.store.manifest import Manifest
from probekit.store.names import MANIFEST, PARTIAL
from probekit.store.verify import verify_checksums, verify_files
from probekit.tasks import is_called

logger = logging.getLogger(__name__)

_COLUMNS = (
    *("model", "task", "split", "key", "size", "bytes", "examples", "words", "layers"),
    *("dtype", "compute", "format", "created", "state"),
)


LEFT_OVER = "left over"
"""How the state of what no entry needs begins."""

_ORDERS = {"name": (), "size": ("bytes",), "created": ("created",)}
"""By what column entries are sorted, downwards."""


def list_cache(root: Path, order: str = "name") -> list[dict[str, Any]]:
    """Return a row for each entry, unfinished ones included, then one for whatever is left over.

    Args:
        root: the cache root.
        order: of the entries: ``name``, ``size`` (largest first) or ``created`` (newest first).

    Raises:
        UnknownNameError: there is no such order.
    """
    columns = choose("order", order, _ORDERS)
    rows = [_row(folder) for folder in list_entries(root)]
    for column in columns:
        rows.sort(key=itemgetter(column), reverse=True)  # "-" is less than any digit
    return rows + [_stale_row(stale, root) for stale in find_stale(root)]


def _stale_row(stale: Stale, root: Path) -> dict[str, Any]:
    model, task, *rest = stale.path.relative_to(root).parts
    return dict.fromkeys(_COLUMNS, "-") | {
        "model": model,
        "task": task,
        "split": "/".join(rest),
        "bytes": stale.nbytes,
        "size": human_bytes(stale.nbytes),
        "state": f"{LEFT_OVER}: {stale.what}",
    }


def _row(folder: EntryFolder) -> dict[str, Any]:
    size = folder.nbytes
    row: dict[str, Any] = dict.fromkeys(_COLUMNS, "-") | {
        "model": folder.model,
        "task": folder.task,
        "split": folder.split,
        "key": folder.key8,
        "bytes": size,
        "size": human_bytes(size),
        "state": "unfinished",
    }
    if folder.path.name.endswith(PARTIAL):
        return row
    try:
        manifest = read_manifest(folder.path)
    except EntryError as error:
        logger.warning("%s", error)
        other = isinstance(error, EntryVersionError)
        return row | {"state": "unreadable" if other else "damaged"}
    return row | {
        "examples": manifest.counts["examples"],
        "words": manifest.counts.get("words", "-") if manifest.kind == "tagging" else "-",
        "layers": len(manifest.arrays[0].layers),
        "dtype": manifest.dtype,
        "compute": manifest.compute_dtype,
        "format": manifest.backend,
        "created": manifest.created,
        "state": "complete",
    }


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
    paths, folders = [_named(Path(name)) for name in names], list_entries(root)
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


def _named(path: Path) -> Path:
    """Return a path that ends in a name, as ``.`` and ``..`` do not."""
    return Path(os.path.abspath(path)) if path.name in ("", "..") else path


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
        "model": manifest.model_info.get("name", manifest.model),
        "architecture": manifest.request["model"].get("architecture", "unknown"),
        "task": manifest.task,
        "split": manifest.split,
        "origin": manifest.origin,
        "part of the split": manifest.part,
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
        "max |x|": ", ".join(f"{x:.4g}" for x in _largest(manifest)) or "unknown",
        "key": manifest.key,
        "created": manifest.created,
        "versions": ", ".join(f"{name} {found}" for name, found in manifest.versions.items()),
    }


def _largest(manifest: Manifest) -> Sequence[float]:
    """Return the largest value of each layer of the first array."""
    return manifest.statistics.get("max_abs", {}).get(manifest.arrays[0].name, ())


def _labels(entry: Entry) -> str:
    try:
        return ", ".join(label_columns(entry)) or "none"
    except EntryError as error:  # the entry itself is sound
        return f"unreadable: {error}"


def check_chunks(path: Path, *, progress: bool = False) -> int:
    """Check every file of an entry, its labels, and every chunk; return the number of chunks.

    Raises:
        EntryError: something is damaged, missing, short or no part of the entry; the message
            names the first and counts the rest.
    """
    wrong = [*verify_files(path), *_unreadable_labels(path)]
    wrong = wrong or [str(chunk) for chunk in verify_checksums(path, progress=progress)]
    if wrong:
        others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise EntryError(
            f"{path}: {wrong[0]}{others}. The entry cannot be trusted: extract it again with "
            "--overwrite."
        )
    return sum(spec.n_chunks for spec in read_manifest(path).arrays)


def _unreadable_labels(path: Path) -> list[str]:
    """Return which label files of an entry's split are damaged, by their names."""
    wrong = []
    for file in label_files(path, read_manifest(path).split):
        try:
            read_labels(file)
        except EntryError as error:
            wrong.append(str(error).rstrip("."))
    return wrong
