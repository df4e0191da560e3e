"""The entries that are meant: those of a model and task in the cache, or those that are given."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from probekit.base.kinds import KINDS, POOLED, SPLITS
from probekit.base.notices import warn_once
from probekit.base.registry import choose
from probekit.errors import DataError, EntryNotFoundError, OptionError
from probekit.features.location import Location
from probekit.store import Entry, find_entries
from probekit.store.entry import list_entries
from probekit.store.files import typed_path
from probekit.tasks import Task, is_own
from probekit.tasks.user_files import OwnCorpus

logger = logging.getLogger(__name__)


def find_split_entries(
    model: str | Entry | Sequence[Entry],
    task: str | None,
    label: str | None,
    location: Location,
    fit_on: str,
) -> tuple[Task, dict[str, Entry]]:
    """Return the task that is meant, and the entry of each split; that to fit on is train.

    Args and errors are those of `open_features`.
    """
    if isinstance(model, str):
        if task is None:
            raise OptionError(f"{model!r} of which task? Name it; or give entries in their place.")
        about = location.task(task, label)
        _check_labelled(about)
        described = isinstance(about.corpus, OwnCorpus)  # by the options of a command
        typed = [*location.typed, *(["--label", label] if label and described else [])]
        found = _entries(model, about, location, fit_on, typed)
        if is_own(about):  # by one name, wherever its files lie and however their path is typed
            name = found["train"].manifest.task
            about = replace(about, name=name, slug=name)
        return about, found
    if task is not None:
        raise OptionError(f"entries say themselves which task they are of: leave {task!r} out.")
    given = entries_by_split([model] if isinstance(model, Entry) else list(model), fit_on)
    about = location.task_of(list(given.values()), label)
    _check_labelled(about)
    return about, given


def _check_labelled(task: Task) -> None:
    if not task.columns:
        raise DataError(f"task {task.name!r} has no labels to train on.")


def _entries(
    model: str, task: Task, location: Location, fit_on: str, typed: Sequence[str]
) -> dict[str, Entry]:
    known = dict.fromkeys((*SPLITS, *task.splits))
    choose(f"split of {task.name}", fit_on, known)
    root, wanted = typed_path(location.cache), location.wanted(model, task, typed)
    folders = wanted.of_task(wanted.of_model(list_entries(root)))
    present = {folder.split for folder in folders} - {"train", fit_on}
    own = KINDS[task.kinds[task.columns[0]]].own_rows
    arrays = POOLED if own is None else (own,)
    find = partial(find_entries, root, wanted, entry=location.entry, arrays=arrays)
    found = {"train": find(fit_on)}
    for split in [name for name in known if name in present]:
        try:
            found[split] = find(split)
        except EntryNotFoundError as error:
            if location.entry is None:
                raise
            logger.info("%s is left out: %s", split, error)
    return _say_mixed(found)


def _say_mixed(found: dict[str, Entry]) -> dict[str, Entry]:
    """Return entries by split; say so where the states of some were imported."""
    sources = {split: entry.manifest.states_from for split, entry in found.items()}
    if len(set(sources.values())) > 1:
        warn_once(
            logger,
            "the states of the splits are not of one source: %s.",
            ", ".join(f"{split} {source}" for split, source in sources.items()),
        )
    return found


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
    found: dict[str, Entry] = {}
    for entry in entries:
        _check_same(first, entry)
        if entry.manifest.split in found:
            raise OptionError(
                f"{found[entry.manifest.split].path} and {entry.path} are of one split; give one "
                "entry per split."
            )
        found[entry.manifest.split] = entry
    if fit_on not in found:
        raise EntryNotFoundError(
            f"no entry of split {fit_on!r} was given, only of {', '.join(found)}. Give one, or fit "
            f"on another: fit_on={next(iter(found))!r}."
        )
    others = {name: one for name, one in found.items() if name not in ("train", fit_on)}
    return {"train": found[fit_on], **others}


def _check_same(first: Entry, entry: Entry) -> None:
    """Refuse an entry of another model or task."""
    same_model = entry.manifest.request["model"] == first.manifest.request["model"]
    if not same_model or entry.manifest.task != first.manifest.task:
        raise OptionError(
            f"{first.path} and {entry.path} are of different models or tasks; give entries of one "
            "model and task, one per split."
        )
