"""A task whose files are not at hand: what its entries and label files say of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from probekit.base.kinds import KindName
from probekit.base.registry import choose
from probekit.errors import EntryError, MissingFileError
from probekit.store.entry import Entry
from probekit.store.labels import LabelFile, labels_of
from probekit.store.layout import list_entries
from probekit.tasks import Task
from probekit.tasks.sentences import Sentences


def cached_task(root: Path, name: str, label: str | None = None) -> Task | None:
    """Return the task of a folder of the cache, or None if no entry lies in such a folder.

    Args:
        root: the cache root.
        name: the folder's name, as ``probekit cache ls`` shows it.
        label: the label column; None is the one that was stored first, the task's default.

    Raises:
        UnknownNameError: it has no labels in that column.
    """
    folders = [f for f in list_entries(root) if f.task == name and f.complete]
    if not folders:
        return None
    entries = [entry for folder in folders if (entry := _opened(folder.path)) is not None]
    if not entries:
        return None
    files = sorted((f for entry in entries for f in labels_of(entry)), key=lambda f: f.created)
    first: dict[str, LabelFile] = {}
    for file in files:
        first.setdefault(file.column, file)
    if label is not None:
        choose(f"label column of {name}", label, first)
        first = {label: first[label], **first}
    return Task(
        name=name,
        slug=name,
        columns=tuple(first) or _modelled(entries),
        metrics=_metrics(first) or {"token": "perplexity"},
        kinds={column: cast(KindName, file.kind) for column, file in first.items()},
        splits=tuple(dict.fromkeys(folder.split for folder in folders)),
        kind=cast(KindName, entries[0].manifest.kind),
        source=_absent,
    )


def _opened(path: Path) -> Entry | None:
    """Return an entry, or None where it cannot be read: another one may say what the task is."""
    try:
        return Entry.open(path)
    except EntryError:
        return None


def _metrics(files: Mapping[str, LabelFile]) -> dict[str, str]:
    return {column: file.metric for column, file in files.items()}


def _modelled(entries: list[Entry]) -> tuple[str, ...]:
    """Return the column of language modelling, whose labels are its own text."""
    return ("token",) if entries[0].manifest.kind == "language-modelling" else ()


def _absent(split: str, data: Path | None) -> Sentences:
    raise MissingFileError(
        f"the files of split {split!r} are not at hand, only what the cache keeps of them. Give "
        "the path of the files in place of the task."
    )
