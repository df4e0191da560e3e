"""The contracts of fitters, tasks and trackers as checks, and the doors for other people's."""

import tempfile
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from probekit.base.kinds import KINDS
from probekit.base.registry import PathName
from probekit.errors import PluginError, UnknownNameError, clause_of
from probekit.probe.decoders import DECODERS
from probekit.probe.fitters.contract import Fitter
from probekit.probe.heads import HEADS
from probekit.results.trackers.contract import Tracker, TrackerSpec
from probekit.tasks.task import Family, Task
from probekit.testing.promises import Check, Contract, demand, demand_texts, refuses


def says_what_it_is(fitter: Fitter) -> None:
    """It states its name and summary, whether it solves, and the version of its arithmetic."""
    demand_texts(fitter, "name", "summary")
    demand(type(fitter.solves) is bool, f"solves is {fitter.solves!r}, neither True nor False")
    demand(type(fitter.numerics) is int, f"numerics is {fitter.numerics!r}, no whole number")


def says_what_it_suits(fitter: Fitter) -> None:
    """``unsuited`` gives None or a reason in words, and None at least once."""
    reasons = [
        fitter.unsuited(HEADS[head](), DECODERS[decoder](), frozen=frozen)
        for head in ("last", "scalar-mix", "concat")
        for decoder in ("linear", "mlp", "crf", "regression")
        for frozen in (False, True)
    ]
    for reason in reasons:
        words = reason is None or (isinstance(reason, str) and bool(reason.strip()))
        demand(words, f"unsuited gives {reason!r}")
    demand(None in reasons, "it suits none of probekit's heads and decoders")


def says_what_does_the_work(fitter: Fitter) -> None:
    """The optimizer of a fitter that descends lowers a loss; one that solves names a class."""
    if fitter.solves:
        for trains_head in (False, True):
            kind = fitter.path_fit(trains_head=trains_head)
            demand(kind is None or isinstance(kind, type), f"path_fit gives {kind!r}, no class")
        return
    value = nn.Parameter(torch.full((3,), 2.0))
    optimizer = fitter.optimizer([{"params": [value], "lr": 0.05}], None)
    if optimizer is None:
        return
    made = type(optimizer).__name__
    demand(isinstance(optimizer, torch.optim.Optimizer), f"optimizer gives a {made}")
    rates = [group["lr"] for group in optimizer.param_groups]
    demand(rates == [0.05], f"given a group of rate 0.05, its groups have the rates {rates}")
    for _ in range(20):
        torch.autograd.backward(value.square().sum())
        optimizer.step()
        optimizer.zero_grad()
    demand(float(value.square().sum().detach()) < 12, "20 steps down x^2 from 2 do not lower it")


FITTER_CHECKS: tuple[Check[Fitter], ...] = (
    says_what_it_is, says_what_it_suits, says_what_does_the_work,
)  # fmt: skip
"""What holds for every fitter."""


FITTER = Contract("fitter", Fitter, FITTER_CHECKS, built=True)
check_fitter = FITTER.check


def admit_fitter(name: str, fitter: Any, checked: bool) -> Fitter:
    """Return a fitter that is added as it is or by its class, once its contract holds.

    Raises:
        PluginError: it is none, is called otherwise, or breaks the contract.
    """
    FITTER.demand_class(name, type(fitter) if isinstance(fitter, Fitter) else fitter)
    made: Fitter = FITTER.build(fitter)
    if not checked:
        FITTER.check(made)
    return made


@dataclass(frozen=True)
class Tried:
    """What checks of a task are given.

    Attributes:
        name: as users type it.
        task: the task, or of a family its example.
        data: the folder of its files; None reads nothing.
    """

    name: str
    task: Task
    data: Path | None = None


def is_called_as_typed(tried: Tried) -> None:
    """It has the name that users type."""
    name = tried.task.name
    demand(name == tried.name, f"it is called {name!r}, and typed {tried.name!r}")


def names_splits_and_kinds(tried: Tried) -> None:
    """Its splits have distinct names, one of them train, and its columns known kinds."""
    task = tried.task
    demand(len(set(task.splits)) == len(task.splits) > 0, f"its splits are {task.splits}")
    demand("train" in task.splits, f"its splits {', '.join(task.splits)} have no train")
    for column, kind in {"": task.kind, **task.kinds}.items():
        demand(kind in KINDS, f"the kind {kind!r} of {column or 'its text'} is unknown")


def reads_every_split(tried: Tried) -> None:
    """Each split has distinct ids and all labels, and reads the same a second time.

    Without a folder of files it is only tried that a split it does not have is refused.
    """
    task, data = tried.task, tried.data
    refuses(task.read, "no such split", data, error=UnknownNameError)
    for name in task.splits if data is not None else ():
        split, again = task.read(name, data), task.read(name, data)
        ids = [example.id for example in split.examples]
        demand(len(ids) > 0, f"{name} has no example")
        demand(len(set(ids)) == len(ids), f"{name} has an id twice")
        for column in task.columns:
            demand(column in split.labels, f"{name} has no labels in {column!r}")
            demand(len(split.labels[column]) == len(ids), f"{name}: labels and examples differ")
        demand(split.text_fingerprint() == again.text_fingerprint(), f"{name} differs, read again")


TASK_CHECKS: tuple[Check[Tried], ...] = (
    is_called_as_typed, names_splits_and_kinds, reads_every_split,
)  # fmt: skip
"""What holds for every task."""

TASK = Contract("task", Task, TASK_CHECKS)


def check_task(task: Any, name: str | None = None, data: PathName | None = None) -> None:
    """Check a task, or every known one of a family, against the contract of tasks.

    Args:
        task: a `Family`, or a function that makes a `Task`.
        name: as users type it, without what follows a slash; None is that of the task.
        data: the folder with its files, of which every split is read; None reads nothing.

    Raises:
        PluginError: it breaks the contract; the message has the promise and what it did.
    """
    family, folder = _family(task), None if data is None else Path(data)
    for made in family.tasks():
        typed = made.name if name is None else name
        if name is not None and family.variant:
            typed = f"{name}/{made.name.partition('/')[2]}"
        TASK.check(Tried(typed, made, folder))


def admit_task(name: str, task: Any, checked: bool) -> Family:
    """Return the family of a task that is added, once its contract holds.

    Raises:
        PluginError: it makes no task, is called otherwise, or breaks the contract.
    """
    family = _family(task)
    if not checked:
        check_task(family, name)
    return family


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


def logs_curves_on_request(tracker: type[TrackerSpec]) -> None:
    """It states a name and a summary, every option has a default, and curves are off."""
    demand_texts(tracker, "name", "summary")
    demand(is_dataclass(tracker), "it is no dataclass")
    demand(tracker().curves is False, "it logs curves unless told not to")


def opens_before_any_run(tracker: type[TrackerSpec]) -> None:
    """It opens as a `Tracker` beside a records file that does not exist yet."""
    with tempfile.TemporaryDirectory() as folder:
        opened = tracker().open(Path(folder) / "runs.jsonl")
        demand(isinstance(opened, Tracker), f"it is {type(opened).__name__}")


TRACKER_CHECKS: tuple[Check[type[TrackerSpec]], ...] = (
    logs_curves_on_request, opens_before_any_run,
)  # fmt: skip
"""What holds for every tracker."""


TRACKER = Contract("tracker", TrackerSpec, TRACKER_CHECKS)
check_tracker = TRACKER.check

UNOPENED = Contract("tracker", TrackerSpec, (logs_curves_on_request,))
"""What a tracker keeps when it is added: whether it opens shows when it is used, not before."""
