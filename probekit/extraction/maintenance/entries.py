"""List, describe and check the entries of a cache, and choose those that a user names."""

import logging
import re
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from probekit.backbone.checkpoint import local_path
from probekit.backbone.remembered import identity_at
from probekit.base.kinds import KINDS
from probekit.base.notices import human_bytes
from probekit.base.registry import PathName, choose, typed_name
from probekit.errors import (
    EntryError,
    EntryNotFoundError,
    EntryVersionError,
    OptionError,
    ProbekitError,
    clause_of,
)
from probekit.extraction.maintenance.removal import Stale, find_stale
from probekit.store.checksums import verify_checksums, verify_files
from probekit.store.entry import Entry, EntryFolder, list_entries
from probekit.store.files import disk_bytes, plain_path, typed_path
from probekit.store.find import Wanted, names_entry
from probekit.store.labels import label_columns, label_files, read_labels
from probekit.store.layout import MANIFEST, PARTIAL, asked_of
from probekit.store.manifest import Manifest, read_manifest
from probekit.store.parted import Marks, PartedSplit, parted_splits, read_marks
from probekit.tasks import TASKS, TextOptions, folder_name, get_task, is_called
from probekit.tasks.split_parts import read_split

logger = logging.getLogger(__name__)

_COLUMNS = (
    *("model", "task", "split", "part", "key", "size", "bytes", "examples", "words", "layers"),
    *("dtype", "compute", "format", "created", "state"),
)
_KEY = re.compile(r"[0-9a-f]{8,64}")

LEFT_OVER = "left over"
"""How the state of what no entry needs begins."""

_ORDERS = {"name": None, "size": "bytes", "created": "created"}
"""By what column entries are sorted, downwards; by their paths for None."""


def list_cache(root: PathName, order: str = "name", *, join: bool = False) -> list[dict[str, Any]]:
    """Return a row for each entry, unfinished ones included, then one for whatever is left over.

    Args:
        root: the cache root.
        order: of the entries: ``name``, ``size`` (largest first) or ``created`` (newest first).
        join: whether the parts of a split share a row.

    Raises:
        UnknownNameError: there is no such order.
    """
    column, root = choose("order", order, _ORDERS), typed_path(root)
    folders = list_entries(root)
    places = {folder.path.parent: folder.path for folder in folders}
    marks = {place: read_marks(path) for place, path in places.items()}
    by_path = {folder.path: _row(folder, marks[folder.path.parent]) for folder in folders}
    splits = parted_splits(folders) if join else []
    for split in sorted(splits, key=lambda split: len(split.folders), reverse=True):
        # two splits may have parts in common: the larger one has them
        paths = [of.path for of in split.folders.values() if of.path in by_path]
        if len(paths) > 1:
            by_path[min(paths)] = _joined_row([by_path[path] for path in paths], split)
            for path in set(paths) - {min(paths)}:
                del by_path[path]
    rows = list(by_path.values())
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


def _joined_row(rows: Sequence[dict[str, Any]], split: PartedSplit) -> dict[str, Any]:
    size = sum(row["bytes"] for row in rows)
    of_all = "" if split.last is None else f" of {split.last + 1}"
    words = [row["words"] for row in rows if row["words"] != "-"]
    return rows[0] | {
        "part": f"{len(rows)}{of_all} parts",
        "key": split.key[:8] if split.whole else "-",
        "bytes": size,
        "size": human_bytes(size),
        "examples": sum(row["examples"] for row in rows),
        "words": sum(words) or "-",
        "created": max(row["created"] for row in rows),
        "state": "complete" if split.whole else "unfinished",
    }


def _row(folder: EntryFolder, marks: Marks) -> dict[str, Any]:
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
    numbers = [mark.number for mark in marks.get((folder.split, manifest.request["text"]), ())]
    held = "all" if manifest.limit is None else f"first {manifest.limit}"
    return row | {
        "part": f"part {numbers[-1] + 1}" if numbers else held,
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
            + (f" (only {manifest.only})" if spec.name == "tokens" and manifest.only else "")
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


def select_folders(names: Sequence[str], root: PathName) -> list[Path]:
    """Return the entry folders that the user names, finished or not.

    Args:
        names: paths or keys of entries (eight digits or more), or a model, a task and perhaps a
            split or key. A model at a path is known by what it is, own data at a path by its text.
        root: the cache root.

    Raises:
        EntryNotFoundError: nothing matches.
        OptionError: more than model, task and split; or a model at a path that is none any more.
    """
    names, root = [*map(typed_name, names)], typed_path(root)
    # ``.`` and ``..`` have no name of their own
    paths = [plain_path(p) if p.name in ("", "..") else p for p in map(typed_path, names)]
    folders = list_entries(root)
    listed = {folder.path.resolve() for folder in folders}
    if all(_is_entry(path) or path.resolve() in listed for path in paths):
        return paths
    keyed = [  # of a key, or of its beginning as ``cache ls`` prints it
        [folder.path for folder in folders if _KEY.fullmatch(name) and names_entry(name, folder)]
        for name in names
    ]
    if all(keyed):
        return [path for paths_found in keyed for path in paths_found]
    if len(names) > 3:
        raise OptionError(f"give paths of entries, or MODEL TASK [SPLIT]; found {' '.join(names)}.")
    above = {root.resolve(), *(parent for path in listed for parent in list(path.parents)[:2])}
    written = names[0] != paths[0].name  # a path; one of the cache itself is no model
    named = [] if written and paths[0].resolve() in above else _of_model(names[0], folders)
    if len(names) > 1:
        named = _of_task(names[1], named)
    paths_found = [
        folder.path
        for folder in named
        if len(names) < 3 or names[2] in (folder.split, folder.key8, folder.path.name)
    ]
    if not paths_found:
        where = "" if root == Path("cache") else f" --cache {root}"
        raise EntryNotFoundError(
            f"no cache entry matches {' '.join(names)} in {root}. "
            f"`probekit cache ls{where}` lists them."
        )
    return paths_found


def select_sources(names: Sequence[str], root: PathName) -> list[Path]:
    """Return the complete entries that the user names, those of a whole cache by its root.

    Of several, what is unfinished is left out, and said.

    Args:
        names: a cache root, or as for `select_folders`.
        root: the cache root of the others.

    Raises:
        EntryNotFoundError: nothing matches.
        EntryError: what is named is unfinished.
        OptionError: as for `select_folders`.
    """
    given = typed_path(names[0])
    whole = len(names) == 1 and not _is_entry(given) and given.is_dir()
    selected = [folder.path for folder in list_entries(given)] if whole else []
    selected = selected or select_folders(names, root)
    complete = [path for path in selected if not path.name.endswith(PARTIAL)]
    for path in [path for path in selected if path not in complete]:
        if not complete or plain_path(path) in map(plain_path, map(typed_path, names)):
            read_manifest(path)  # says what to do
        logger.warning(
            "left out: %s is unfinished. Run the command that began it again to finish it.", path
        )
    return complete


def _of_model(name: str, folders: Sequence[EntryFolder]) -> list[EntryFolder]:
    """Return the entries of a model: the one that lies at a path, or all of a name."""
    path, identity = local_path(name), identity_at(name)
    if identity is None and path is not None:
        raise OptionError(
            f"{name}: this no longer says which model it is, and another model may have had its "
            "name. Give keys or paths of entries (`probekit cache ls`)."
        )
    return Wanted(model=name, task="", slug="", identity=identity).of_model(folders)


def _of_task(name: str, folders: Sequence[EntryFolder]) -> list[EntryFolder]:
    """Return the entries of a task: of own data at a path by its text, of all others by name."""
    if name.partition("/")[0] in TASKS or not Path(name).expanduser().exists():
        return [folder for folder in folders if is_called(folder.task, name)]
    silent = [f for f in folders if not asked_of(f.path) and is_called(f.task, name)]
    by_path = {folder.path: folder for folder in silent}
    for kind in KINDS:
        wanted = Wanted(model="", task=name, slug=folder_name(name), text=_texts(name, kind))
        by_path |= {folder.path: folder for folder in wanted.of_task(folders)}
    return list(by_path.values())


def _texts(name: str, kind: str) -> Callable[[str, int | None, bool], str | None]:
    """Return a function to the fingerprints of own data read as a kind; None if it is not that."""

    @cache
    def fingerprint(split: str, limit: int | None, at_once: bool) -> str | None:
        try:
            task = get_task(name, TextOptions(kind=kind))
            read = (
                task.read(split).first(limit) if at_once else read_split(task, split, limit=limit)
            )
            return read.text_fingerprint()
        except ProbekitError:  # of another kind, or read with options that are not known here
            return None

    return fingerprint


def _is_entry(path: Path) -> bool:
    return path.name.endswith(PARTIAL) or (path / MANIFEST).is_file()
