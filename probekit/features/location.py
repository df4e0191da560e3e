"""Where features and labels lie, and which entries are meant: nothing in it changes a result."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import Any, cast

from probekit.backbone.checkpoint import local_path
from probekit.backbone.remembered import identity_at
from probekit.base.kinds import KINDS, POOLED, SPLITS, TOKENS, KindName
from probekit.base.layers import STREAM, ReadPoint
from probekit.base.notices import warn_once
from probekit.base.registry import PathName, choose, typed_name
from probekit.errors import (
    DataError,
    EntryError,
    EntryNotFoundError,
    MissingFileError,
    OptionError,
    UnknownNameError,
)
from probekit.store import Entry, find_entries
from probekit.store.entry import list_entries
from probekit.store.files import typed_path
from probekit.store.find import Wanted
from probekit.store.labels import LabelFile, labels_of
from probekit.tasks import TASKS, Task, TextOptions, get_task, is_called, is_own
from probekit.tasks.sentences import Sentences, Split
from probekit.tasks.spans import source_columns, with_derived
from probekit.tasks.split_parts import read_split
from probekit.tasks.user_files import OwnCorpus

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Location(TextOptions):
    """Where the entries of a model and task are, where to read labels, and how the user's own are.

    Attributes:
        cache: root of the feature cache.
        entry: chooses among several matching entries (key, folder name or path).
        data: folder to read labels from afresh; ``None`` takes the newest beside the entry.
        group: the column of groups (``--group``), which is no label of the user's own data.
        identity: identity of the model, where an entry's path stands in its place; ``None`` is
            that of the model at the path that is given as such, if one lies there.
    """

    cache: PathName = Path("cache")
    entry: PathName | None = None
    data: PathName | None = None
    group: str | None = None
    identity: Mapping[str, Any] | None = field(default=None, hash=False)

    def task(self, name: PathName, label: str | None = None) -> Task:
        """Return the task that a user names: one of probekit's, own files, or one in the cache.

        Args:
            name: a task, the path of own files as these options read them, or a task as ``probekit
                cache ls`` shows it, which needs no files any more.
            label: the label column; None is the task's default.

        Raises:
            UnknownNameError: no such task or column.
            MissingFileError: a path that does not exist.
            OptionError: entries of the cache keep several ways of reading what lies there.
        """
        name = typed_name(name)
        choose("kind", self.kind or "tagging", KINDS)  # or a task of the cache would do
        try:
            return get_task(name, self._read_as(name), label, self.group)
        except (UnknownNameError, MissingFileError):
            there = name.partition("/")[0] in TASKS or Path(name).expanduser().exists()
            task = None if there else _cached_task(typed_path(self.cache), name, label)
            if task is None:
                raise
            return task

    def _read_as(self, name: str) -> TextOptions:
        """Return how the user's own data is read: as is typed, else as entries of it keep it."""
        if name.partition("/")[0] in TASKS:
            return self
        ways = [
            (folder.task, folder.manifest.read)
            for folder in list_entries(typed_path(self.cache))
            if folder.manifest and folder.manifest.read is not None and is_called(folder.task, name)
            if self.fits(folder.manifest.read)
        ]
        if any(read != ways[0][1] for _, read in ways):
            typed = [(task, " ".join(TextOptions().or_as(read).typed)) for task, read in ways]
            said = dict.fromkeys(f"{task}: {way or 'without options'}" for task, way in typed)
            raise OptionError(
                f"the cache holds {name} read in several ways ({'; '.join(said)}). Give its name "
                f"in the cache, such as {ways[0][0]}."
            )
        return self.or_as(ways[0][1]) if ways else self

    def task_of(self, entries: Sequence[Entry], label: str | None = None) -> Task:
        """Return the task of entries that are at hand.

        Args:
            entries: of one task.
            label: the label column; None is the task's default.

        Raises:
            UnknownNameError: no such column.
        """
        first = entries[0]
        if first.manifest.task.partition("/")[0] in TASKS:
            return get_task(first.manifest.task, label=label)
        return task_of_entries(first.path.parent.name, entries, label)

    def check_cached(
        self,
        model: str,
        task: Task,
        label: str | None,
        split: str,
        *,
        tokens: bool = False,
        point: str | None = None,
    ) -> None:
        """Refuse a model, or one of probekit's tasks, that is not in the cache, without torch.

        Args:
            model: as for `wanted`, as are task and label.
            task: from ``task``.
            label: the label column that was named.
            split: the one to fit on.
            tokens: whether tokens are read.
            point: the point to read rows from.

        Raises:
            EntryNotFoundError: there is no entry of it; the message says what to type.
        """
        wanted, root = self.wanted(model, task, label), typed_path(self.cache)
        folders = wanted.of_model(list_entries(root))
        if not (folders if wanted.text else wanted.of_task(folders)):  # own text is not read here
            read = ReadPoint.parse(point)
            arrays = _read_arrays(task, read, tokens=tokens) if tokens or point else ()
            find_entries(root, wanted, split, self.entry, arrays=arrays)

    def wanted(self, model: PathName, task: Task, label: str | None = None) -> Wanted:
        """Return whose entries are meant.

        Args:
            model: the backbone, as in ``probekit extract``.
            task: from ``task``.
            label: the label column that was named, for the command in a message.
        """
        model, typed = typed_name(model), self.typed
        if isinstance(task.corpus, OwnCorpus):  # by the options of a command
            typed = [*task.corpus.choice.typed, *(["--label", label] if label else [])]
        identity = identity_at(model) if self.identity is None else self.identity
        path = local_path(model) if identity is None else None
        return Wanted(
            model=model,
            task=task.name,
            slug=task.slug,
            identity=identity,
            at=None if path is None else path.resolve(),
            text=_own_text(task) if is_own(task) else None,
            typed=typed,
        )


def _own_text(task: Task) -> Callable[[str, int | None, bool], str | None]:
    """Return a function from a split, and how many of its examples, to their fingerprint.

    Of a split that is read in parts it is that of its source, or with ``True`` as it was when that
    was read at once.
    """
    read = cache(partial(read_split, task))

    @cache
    def fingerprint(split: str, limit: int | None, at_once: bool) -> str | None:
        if split not in task.splits:
            return None
        whole = read(split)
        if at_once:
            is_read = isinstance(whole, Split)
            return None if is_read else task.read(split).first(limit).text_fingerprint()
        some = whole.first(limit) if isinstance(whole, Split) else read(split, limit=limit)
        return some.text_fingerprint()

    return fingerprint


def _cached_task(root: Path, name: str, label: str | None) -> Task | None:
    """Return the task of a folder of the cache, or None if no entry lies in such a folder.

    The hash of its text need not be typed. Its files are not at hand: what entries and label files
    say of it is all that is known. Its default label is the one that was stored first.

    Raises:
        UnknownNameError: it has no labels in that column.
        OptionError: the cache has several texts of that name.
    """
    known = [folder for folder in list_entries(root) if folder.complete]
    folders = [f for f in known if f.task == name] or [f for f in known if is_called(f.task, name)]
    slugs = sorted({folder.task for folder in folders})
    if len(slugs) > 1:
        raise OptionError(f"several texts are called {name}: {', '.join(slugs)}. Name one of them.")
    entries: list[Entry] = []
    for folder in folders:
        with suppress(EntryError):  # another one may say what the task is
            entries.append(Entry.open(folder.path))
    return task_of_entries(slugs[0], entries, label) if entries else None


def task_of_entries(name: str, entries: Sequence[Entry], label: str | None) -> Task:
    """Return the task of some entries, of which nothing but these is at hand.

    Args:
        name: its folder's name.
        entries: at least one.
        label: the label column; None is the one that was stored first.

    Raises:
        UnknownNameError: it has no labels in that column.
    """
    files = sorted((f for entry in entries for f in labels_of(entry)), key=lambda f: f.created)
    first: dict[str, LabelFile] = {}
    for file in files:
        first.setdefault(file.column, file)
    if label is not None:
        column = source_columns(label)[0]
        choose(f"label column of {name}", column, first)
        first = {column: first[column], **first}
    kind = cast(KindName, entries[0].manifest.kind)
    # The labels of language modelling are its own text; no file holds them.
    unstored = {"token": "perplexity"} if KINDS[kind].targets == "vocabulary" else {}
    metrics = {column: file.metric for column, file in first.items()}
    task = Task(
        name=name,
        slug=name,
        metrics=metrics or unstored,
        kinds={column: cast(KindName, file.kind) for column, file in first.items()},
        splits=tuple(dict.fromkeys(entry.manifest.split for entry in entries)),
        kind=kind,
        corpus=_absent,
    )
    return with_derived(task, label)


def _absent(split: str, data: Path | None) -> Sentences:
    raise MissingFileError(
        f"the files of split {split!r} are needed, but the cache keeps only part of them. Give "
        "the path of the files instead of the task."
    )


def find_split_entries(
    model: PathName | Entry | Sequence[Entry],
    task: PathName | None,
    label: str | None,
    location: Location,
    fit_on: str,
    *,
    tokens: bool = False,
    point: ReadPoint = STREAM,
) -> tuple[Task, dict[str, Entry]]:
    """Return the task that is meant, and the entry of each split; that to fit on is train.

    Of several entries those with ``tokens`` are meant if these are to be read, and those with the
    point that is. The other args, and errors, are those of `open_features`.
    """
    if not isinstance(model, str | PathLike):
        if task is not None:
            raise OptionError(f"entries already name their task: leave {str(task)!r} out.")
        given = entries_by_split([model] if isinstance(model, Entry) else list(model), fit_on)
        about = location.task_of(list(given.values()), label)
        _check_labelled(about)
        return about, given
    if task is None:
        raise OptionError(f"{str(model)!r}: give a task, or entries instead of the model.")
    about = location.task(task, label)
    _check_labelled(about)
    known = dict.fromkeys((*SPLITS, *about.splits))
    choose(f"split of {about.name}", fit_on, known)
    root, wanted = typed_path(location.cache), location.wanted(model, about, label)
    folders = wanted.of_task(wanted.of_model(list_entries(root)))
    present = {folder.split for folder in folders} - {"train", fit_on}
    arrays = _read_arrays(about, point, tokens=tokens)
    find = partial(find_entries, root, wanted, entry=location.entry, arrays=arrays)
    by_split = {"train": find(fit_on)}
    for split in [name for name in known if name in present]:
        try:
            by_split[split] = find(split)
        except EntryNotFoundError as error:
            if location.entry is None:
                raise
            logger.info("%s is left out: %s", split, error)
    sources = {split: entry.manifest.states_from for split, entry in by_split.items()}
    if len(set(sources.values())) > 1:
        said = ", ".join(f"{split} {source}" for split, source in sources.items())
        warn_once(logger, "the states of the splits come from different sources: %s.", said)
    if is_own(about):  # by one name, wherever its files lie and however their path is typed
        name = by_split["train"].manifest.task
        about = replace(about, name=name, slug=name)
    return about, by_split


def _read_arrays(task: Task, point: ReadPoint, *, tokens: bool) -> tuple[str, ...]:
    """Return the arrays of which an entry must hold one at each point.

    Args:
        task: its default label column says what has labels.
        point: that rows are read from.
        tokens: whole texts are read by a token head.
    """
    own = KINDS[task.kinds[task.columns[0]]].own_rows
    names = (own,) if own is not None else (TOKENS,) if tokens else POOLED
    return tuple(array for name in names for array in point.arrays(name).values())


def _check_labelled(task: Task) -> None:
    if not task.columns:
        raise DataError(f"task {task.name!r} has no labels to train on.")


def entries_by_split(entries: Sequence[Entry], fit_on: str) -> dict[str, Entry]:
    """Return entries of one model and task by their split; that which is fitted on is ``train``.

    Args:
        entries: at least one, one per split.
        fit_on: the split that takes the place of train.

    Raises:
        OptionError: there is none, they are of several models or tasks, or two are of one split.
        EntryNotFoundError: none is of the split to fit on.
    """
    if not entries or not all(isinstance(entry, Entry) for entry in entries):
        raise OptionError("expected a model and a task, or entries; found neither.")
    first = entries[0]
    entry_of: dict[str, Entry] = {}
    for entry in entries:
        same_model = entry.manifest.request["model"] == first.manifest.request["model"]
        if not same_model or entry.manifest.task != first.manifest.task:
            raise OptionError(
                f"{first.path} and {entry.path} are of different models or tasks; give entries of "
                "one model and task, one per split."
            )
        split = entry.manifest.split
        if split in entry_of:
            raise OptionError(
                f"{entry_of[split].path} and {entry.path} are of the same split; give one entry "
                "per split."
            )
        entry_of[split] = entry
    if fit_on not in entry_of:
        raise EntryNotFoundError(
            f"no entry of split {fit_on!r} was given, only of {', '.join(entry_of)}. Give one, or "
            f"fit on another: fit_on={next(iter(entry_of))!r}."
        )
    others = {name: other for name, other in entry_of.items() if name not in ("train", fit_on)}
    return {"train": entry_of[fit_on], **others}
