"""Find the one entry that a command means, or say what to type."""

import difflib
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from probekit.errors import EntryNotFoundError
from probekit.store.entry import Entry, read_manifest
from probekit.store.layout import EntryFolder, list_entries, model_slug
from probekit.store.manifest import Manifest

# What differs between the entries of one extraction over several splits.
_OF_THE_SPLIT = {"split", "text", "text_fingerprint"}


def find_entries(
    root: Path,
    model: str,
    task: str,
    split: str,
    entry: str | None = None,
    *,
    task_slug: str | None = None,
    arrays: Collection[str] = (),
    typed: Sequence[str] = (),
) -> Entry:
    """Return the entry of a model, task and split; exactly one must match.

    Args:
        root: the cache root.
        model: the model as the user types it; it need not exist any more.
        task: the task as the user types it.
        split: the split's name.
        entry: chooses where several match: a prefix of the key, a folder name, or a path. It may
            name an entry of another split; then the one made by the same request is taken.
        task_slug: the task's folder name, where it is not ``task`` with ``-`` for ``/``.
        arrays: of several entries, those that hold one of these are meant, and of entries that
            differ in what they keep alone, the one that keeps all that the others do.
        typed: options that say what the task is, for the command in a message.

    Raises:
        EntryNotFoundError: none matches, or several do and ``entry`` does not choose.
        EntryError: the one that matches is unfinished or damaged.
    """
    slug = task.replace("/", "-") if task_slug is None else task_slug
    folders = list_entries(root)
    of_task = [f for f in folders if (f.model, f.task) == (model_slug(model), slug)]
    matching = [f for f in of_task if f.split == split]
    if entry is not None:
        matching = _chosen(matching, of_task, entry)
    complete = [f for f in matching if f.complete]
    if len(complete) > 1:
        complete = _widest(complete, arrays)
    if len(complete) > 1:
        raise EntryNotFoundError(_several(complete, model, task, split))
    if matching:
        return Entry.open((complete or matching)[0].path)
    raise EntryNotFoundError(_none(root, model, task, split, entry, of_task, folders, typed))


def _chosen(
    matching: Sequence[EntryFolder], of_task: Sequence[EntryFolder], entry: str
) -> list[EntryFolder]:
    named = [f for f in matching if _names(entry, f)]
    if named:
        return named
    elsewhere = [f for f in of_task if f.complete and _names(entry, f)]
    wanted = [_request(read_manifest(f.path)) for f in elsewhere]
    return [f for f in matching if f.complete and _request(read_manifest(f.path)) in wanted]


def _widest(folders: Sequence[EntryFolder], arrays: Collection[str]) -> list[EntryFolder]:
    """Leave out entries without the arrays, and those that another one holds all of."""
    requests = {f: read_manifest(f.path).request for f in folders}
    kept = {f: set(request.get("keep", ())) for f, request in requests.items()}
    useful = [f for f in folders if not arrays or kept[f] & set(arrays)] or list(folders)
    if _differing([requests[f] for f in useful]) != ["keep"]:
        return useful
    every = set().union(*(kept[f] for f in useful))
    return [f for f in useful if kept[f] == every] or useful


def _names(entry: str, folder: EntryFolder) -> bool:
    if entry == folder.path.name or Path(entry).resolve() == folder.path.resolve():
        return True
    if len(entry) <= len(folder.key8):
        return bool(entry) and folder.key8.startswith(entry)
    if not entry.startswith(folder.key8) or not folder.complete:
        return False
    return read_manifest(folder.path).key.startswith(entry)


def _request(manifest: Manifest) -> dict[str, Any]:
    return {name: value for name, value in manifest.request.items() if name not in _OF_THE_SPLIT}


def _several(folders: Sequence[EntryFolder], model: str, task: str, split: str) -> str:
    requests = [read_manifest(folder.path).request for folder in folders]
    described = (
        f"{folder.key8} ({_values(request, _differing(requests))})"
        for folder, request in zip(folders, requests, strict=True)
    )
    return (
        f"{len(folders)} entries match {model} {task} split {split}: {'; '.join(described)}. "
        "Choose one with --entry KEY, or remove what is out of date: probekit cache rm PATH."
    )


def _differing(requests: Sequence[Mapping[str, Any]]) -> list[str]:
    names = sorted({name for request in requests for name in request})
    found = [n for n in names if any(r.get(n) != requests[0].get(n) for r in requests)]
    # The text of a part is another one: no news where the limit is named.
    return [n for n in found if n != "text"] if "limit" in found else found


def _values(request: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(_value(name, request.get(name)) for name in names)


def _value(name: str, value: Any) -> str:
    if name == "limit" and value is None:
        return "the whole split"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name} {_short(text)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."


def _none(
    root: Path,
    model: str,
    task: str,
    split: str,
    entry: str | None,
    of_task: Sequence[EntryFolder],
    folders: Sequence[EntryFolder],
    typed: Sequence[str],
) -> str:
    if entry is not None and of_task:
        keys = ", ".join(f.path.name for f in of_task)
        return (
            f"no entry of {model} {task} split {split} matches --entry {entry}; there are: {keys}."
        )
    if of_task:
        splits = ", ".join(sorted({f.split for f in of_task}))
        other = ", or fit on another: --fit-on SPLIT --hold-out 0.1" if split == "train" else ""
        return (
            f"no entry of {model} {task} for split {split} in {root} (there is: {splits}). "
            f"Type: {_command(root, model, task, typed)} --split {split}{other}"
        )
    near = _near(model, task, folders)
    hint = f" The cache holds {near}." if near else ""
    command = _command(root, model, task, typed)
    return f"no entry of {model} {task} in {root}.{hint} Type: {command}"


def _command(root: Path, model: str, task: str, typed: Sequence[str]) -> str:
    words = ["probekit", "extract", model, task, *typed]
    return shlex.join(words if root == Path("cache") else [*words, "--cache", str(root)])


def _near(model: str, task: str, folders: Sequence[EntryFolder]) -> str:
    held = sorted({f"{f.model} {f.task}" for f in folders})
    same = [name for name in held if name.startswith(f"{model_slug(model)} ")]
    wanted = f"{model_slug(model)} {task}"
    return ", ".join(same or difflib.get_close_matches(wanted, held, n=3, cutoff=0.5))
