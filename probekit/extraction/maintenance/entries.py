"""List, describe and check the entries of a cache."""

import logging
from operator import itemgetter
from pathlib import Path
from typing import Any

from probekit.base.notices import human_bytes
from probekit.base.registry import choose
from probekit.errors import EntryError, EntryVersionError, clause_of
from probekit.extraction.maintenance.removal import Stale, find_stale
from probekit.store.checksums import verify_checksums, verify_files
from probekit.store.entry import Entry, EntryFolder, list_entries
from probekit.store.files import disk_bytes
from probekit.store.labels import label_columns, label_files, read_labels
from probekit.store.layout import PARTIAL
from probekit.store.manifest import Manifest, read_manifest

logger = logging.getLogger(__name__)

_COLUMNS = (
    *("model", "task", "split", "part", "key", "size", "bytes", "examples", "words", "layers"),
    *("dtype", "compute", "format", "created", "state"),
)


LEFT_OVER = "left over"
"""How the state of what no entry needs begins."""

_ORDERS = {"name": None, "size": "bytes", "created": "created"}
"""By what column entries are sorted, downwards; by their paths for None."""


def list_cache(root: Path, order: str = "name") -> list[dict[str, Any]]:
    """Return a row for each entry, unfinished ones included, then one for whatever is left over.

    Args:
        root: the cache root.
        order: of the entries: ``name``, ``size`` (largest first) or ``created`` (newest first).

    Raises:
        UnknownNameError: there is no such order.
    """
    column = choose("order", order, _ORDERS)
    rows = [_row(folder) for folder in list_entries(root)]
    if column is not None:
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
        "part": "all" if manifest.limit is None else f"first {manifest.limit}",
        "examples": manifest.counts["examples"],
        "words": manifest.counts.get("words") or "-",
        "layers": len(manifest.arrays[0].layers),
        "dtype": manifest.dtype,
        "compute": manifest.compute_dtype,
        "format": manifest.backend,
        "created": manifest.created,
        "state": "complete" if manifest.imported is None else "complete, imported",
    }


def describe(path: Path) -> dict[str, Any]:
    """Return what an entry says of itself, and its size.

    Raises:
        EntryError: the entry is unfinished or damaged.
    """
    entry = Entry.open(path)
    manifest, first = entry.manifest, entry.manifest.arrays[0]
    largest = manifest.statistics.get("max_abs", {}).get(first.name, ())
    through = "".join(f"rounded to {gone}, " for gone in manifest.request.get("through", ()))
    return {
        "path": str(path),
        "size": human_bytes(disk_bytes(entry.folder)),
        "model": manifest.model_info.get("name", manifest.model),
        "architecture": manifest.request["model"].get("architecture", "unknown"),
        "task": manifest.task,
        "split": manifest.split,
        "origin": manifest.origin,
        "states": _states(manifest),
        "part of the split": manifest.part,
        "labels": _labels(entry),
        "arrays": ", ".join(
            f"{spec.name} {spec.rows:,} x {len(spec.layers)} x {spec.dim}"
            for spec in manifest.arrays
        ),
        "layers": ", ".join(map(str, first.layers)) + " (0 = emb)",
        "last layer": "after the final norm"
        if manifest.final_norm
        else "as the last block left it",
        "dtype": f"{manifest.dtype}, {through}computed in {manifest.compute_dtype}",
        "pooling": manifest.pooling,
        **{name.replace("_", " "): f"{count:,}" for name, count in manifest.counts.items()},
        "max |x|": ", ".join(f"{x:.4g}" for x in largest) or "unknown",
        "key": manifest.key,
        "created": manifest.created,
        "versions": ", ".join(f"{name} {release}" for name, release in manifest.versions.items()),
    }


def _states(manifest: Manifest) -> str:
    """Return where the states came from, and what is said of them."""
    if (said := manifest.imported) is None:
        return manifest.states_from
    parts = [f"{manifest.states_from} (sha256 {said['states'][:12]}...)", f"by {said['form']}"]
    if said.get("special_tokens") not in (None, "present"):
        parts.append(f"special tokens {said['special_tokens']}")
    if apart := manifest.model_info.get("apart"):
        parts.append(f"not what the model computes here: {apart}")
    return "; ".join(parts)


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
            wrong.append(clause_of(error))
    return wrong
