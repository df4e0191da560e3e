"""Whose entries a command means: the model at a path, and a task or the text of own files."""

from collections.abc import Callable, Sequence
from functools import cache

from probekit.backbone.remembered import identity_at
from probekit.errors import MissingFileError, UnknownNameError
from probekit.features.cached_task import cached_task
from probekit.features.location import Location
from probekit.store.find import Wanted
from probekit.tasks import Split, Task, is_own


def find_task(name: str, label: str | None, location: Location) -> Task:
    """Return the task that a user names: one of probekit's, own files, or a folder of the cache.

    Args:
        name: a task, the path of own files, or a task as ``probekit cache ls`` shows it, which
            needs no files any more.
        label: the label column; None is the task's default.
        location: where entries lie, and what the own files are.

    Raises:
        UnknownNameError: no such task or column.
        MissingFileError: a path that does not exist.
    """
    try:
        return location.task(name, label)
    except (UnknownNameError, MissingFileError):
        task = cached_task(location.root, name, label)
        if task is None:
            raise
        return task


def wanted_of(model: str, task: Task, location: Location, typed: Sequence[str]) -> Wanted:
    """Return whose entries are meant.

    Args:
        model: the backbone, as in ``probekit extract``.
        task: from ``find_task``.
        location: where entries lie.
        typed: options that say what the task is.
    """
    return Wanted(
        model=model,
        task=task.name,
        slug=task.slug,
        identity=identity_at(model) if location.identity is None else location.identity,
        text=_own_text(task) if is_own(task) else None,
        typed=typed,
    )


def _own_text(task: Task) -> Callable[[str, int | None], str | None]:
    """Return a function from a split, and how many of its examples, to their fingerprint."""

    @cache
    def read(split: str) -> Split:
        return task.read(split)

    @cache
    def fingerprint(split: str, limit: int | None) -> str | None:
        if split not in task.splits:
            return None
        return read(split).first(limit).text_fingerprint()

    return fingerprint
