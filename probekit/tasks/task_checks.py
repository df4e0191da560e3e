"""The contract of tasks as checks, and the door through which those of third parties come in."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.base.contract_checks import Check, demand, refuses, run_checks
from probekit.base.kinds import KINDS
from probekit.errors import PluginError, UnknownNameError, clause_of
from probekit.tasks.task import Family, Task


@dataclass(frozen=True)
class Tried:
    """What checks of a task are given.

    Attributes:
        name: as users type it.
        task: the task, or of a family its example.
        again: the same, made once more.
        data: the folder of its files; None reads nothing.
    """

    name: str
    task: Task
    again: Task
    data: Path | None = None


def is_called_as_typed(tried: Tried) -> None:
    """It has the name that users type; made again, it is the same."""
    task, again = tried.task, tried.again
    demand(task.name == tried.name, f"it is called {task.name!r}, and typed {tried.name!r}")
    said = [(one.name, one.slug, one.splits, one.kind, one.columns) for one in (task, again)]
    demand(said[0] == said[1], f"made twice it is {said[0]}, then {said[1]}")


def names_splits_and_kinds(tried: Tried) -> None:
    """Its splits have distinct names, a train one among them; kinds of its columns are known."""
    task = tried.task
    demand(len(set(task.splits)) == len(task.splits) > 0, f"its splits are {task.splits}")
    demand("train" in task.splits, f"its splits {', '.join(task.splits)} have no train")
    for column, kind in {"": task.kind, **task.kinds}.items():
        demand(kind in KINDS, f"the kind {kind!r} of {column or 'its text'} is unknown")


def reads_every_split(tried: Tried) -> None:
    """Every split has examples with ids of their own and their labels; read again, it is the same.

    Without a folder of files it is only tried that a split it does not have is refused.
    """
    task, data = tried.task, tried.data
    refuses(lambda: task.read("no such split", data), UnknownNameError, "a split that it lacks")
    if data is None:
        return
    for name in task.splits:
        split = task.read(name, data)
        ids = [one.id for one in split.examples]
        demand(len(ids) > 0, f"{name} has no example")
        demand(len(set(ids)) == len(ids), f"{name} has an id twice")
        for column in task.columns:
            demand(column in split.labels, f"{name} has no labels in {column!r}")
            demand(len(split.labels[column]) == len(ids), f"{name}: labels and examples differ")
        again = task.read(name, data)
        demand(split.text_fingerprint() == again.text_fingerprint(), f"{name} differs, read again")


TASK_CHECKS: tuple[Check[Tried], ...] = (
    is_called_as_typed, names_splits_and_kinds, reads_every_split,
)  # fmt: skip
"""What holds for every task."""


def check_task(task: Any, name: str | None = None, data: str | Path | None = None) -> None:
    """Check a task, or every known one of a family, against the contract of tasks.

    Args:
        task: a `Family`, or a function that makes a `Task`.
        name: as users type it, without what follows a slash; None is that of the task.
        data: the folder with its files, of which every split is read; None reads nothing.

    Raises:
        PluginError: it breaks the contract; the message has the promise and what it did.
    """
    family = _family(task)
    folder = None if data is None else Path(data)
    for one, again in zip(family.tasks(), family.tasks(), strict=True):
        called = one.name if name is None else _typed(name, one, family)
        run_checks("task", Tried(called, one, again, folder), TASK_CHECKS)


def admit_task(name: str, task: Any, checked: bool) -> Family:
    """Return the family of a task that is added, once its contract holds.

    Raises:
        PluginError: it makes no task, is called otherwise, or breaks the contract.
    """
    family = _family(task)
    if not checked:
        check_task(family, name)
    return family


def _typed(name: str, task: Task, family: Family) -> str:
    """Return what users type for a task of a family that they call ``name``."""
    return f"{name}/{task.name.partition('/')[2]}" if family.variant else name


def _family(task: Any) -> Family:
    """Return a family of the one task that a function makes; a family as it is."""
    if isinstance(task, Family):
        return task
    if not callable(task):
        raise PluginError(f"expected a Family, or a function that makes a Task; found {task!r}.")
    try:
        made = task()
    except Exception as error:  # whatever the function does
        raise PluginError(f"the function that makes it failed: {clause_of(error)}.") from error
    if not isinstance(made, Task):
        raise PluginError(f"expected a function that makes a Task; it made {made!r}.")
    summary = (task.__doc__ or "a task of your own").strip().splitlines()[0]
    return Family(build=task, summary=summary)
