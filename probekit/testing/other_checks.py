"""The contracts of fitters, tasks, trackers and normalisations as checks."""

import json
import tempfile
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from probekit.base.kinds import KINDS
from probekit.errors import PluginError, UnknownNameError, clause_of
from probekit.probe.decoders import DECODERS
from probekit.probe.fitters.contract import Fitter
from probekit.probe.heads import HEADS
from probekit.probe.model_parts import FinalNorm
from probekit.probe.normalization.contract import Normalization, RowFacts
from probekit.results.trackers.contract import Tracker, TrackerSpec
from probekit.tasks.task import Family, Task
from probekit.testing.promises import (
    MASSIVE,
    Check,
    Contract,
    demand,
    demand_finite,
    demand_loads,
    demand_texts,
    refuses,
    seeded_generator,
)


def says_what_it_is(fitter: Fitter) -> None:
    """It states its name and summary, whether it solves, and the version of its arithmetic."""
    demand_texts(fitter, "name", "summary")
    demand(type(fitter.solves) is bool, f"solves is {fitter.solves!r}, neither True nor False")
    demand(type(fitter.numerics) is int, f"numerics is {fitter.numerics!r}, no whole number")


def says_what_it_suits(fitter: Fitter) -> None:
    """``unsuited`` gives None or a reason in words, always the same, and None at least once."""
    cases = [
        (HEADS[head](), DECODERS[decoder](), frozen)
        for head in ("last", "scalar-mix", "concat")
        for decoder in ("linear", "mlp", "crf", "regression")
        for frozen in (False, True)
    ]
    reasons, again = (
        [fitter.unsuited(head, decoder, frozen=frozen) for head, decoder, frozen in cases]
        for _ in range(2)
    )
    for reason in reasons:
        words = reason is None or (isinstance(reason, str) and bool(reason.strip()))
        demand(words, f"unsuited gives {reason!r}")
    demand(reasons == again, f"unsuited gives {reasons}, then {again}")
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
        again: the same, made once more.
        data: the folder of its files; None reads nothing.
    """

    name: str
    task: Task
    again: Task
    data: Path | None = None


def is_called_as_typed(tried: Tried) -> None:
    """It has the name that users type, and is the same when it is made again."""
    name = tried.task.name
    demand(name == tried.name, f"it is called {name!r}, and typed {tried.name!r}")
    first, again = (
        (task.name, task.slug, task.splits, task.kind, task.columns)
        for task in (tried.task, tried.again)
    )
    demand(first == again, f"made twice it is {first}, then {again}")


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


def check_task(task: Any, name: str | None = None, data: str | Path | None = None) -> None:
    """Check a task, or every known one of a family, against the contract of tasks.

    Args:
        task: a `Family`, or a function that makes a `Task`.
        name: as users type it, without what follows a slash; None is that of the task.
        data: the folder with its files, of which every split is read; None reads nothing.

    Raises:
        PluginError: it breaks the contract; the message has the promise and what it did.
    """
    family, folder = _family(task), None if data is None else Path(data)
    for first, again in zip(family.tasks(), family.tasks(), strict=True):
        typed = first.name if name is None else name
        if name is not None and family.variant:
            typed = f"{name}/{first.name.partition('/')[2]}"
        TASK.check(Tried(typed, first, again, folder))


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


LAYERS, DIM, ROWS = (0, 2, 3), 8, 50
"""Of the rows that checks fit on; layer 3 is stored behind the model's final norm."""


def sample_rows(
    dtype: torch.dtype = torch.float32, scale: float = 3.0, shift: float = 5.0
) -> Tensor:
    """Return rows of shape (rows, layers, dim), layer-major in memory."""
    z = torch.randn(len(LAYERS), ROWS, DIM, generator=seeded_generator())
    return (z * scale + shift).to(dtype).transpose(0, 1)


def sample_final_norm(kind: Literal["layernorm", "rmsnorm"] = "rmsnorm") -> FinalNorm:
    """Return a model's final norm."""
    weight, bias = torch.rand(2, DIM, generator=seeded_generator(1))
    return FinalNorm(kind=kind, weight=weight, bias=bias if kind == "layernorm" else None, eps=1e-6)


def fit(
    kind: type[Normalization], z: Tensor | None = None, normed_layer: int | None = 3
) -> Normalization:
    """Return a normalisation that is fitted on rows in uneven blocks."""
    facts = RowFacts(final_norm=sample_final_norm(), normed_layer=normed_layer)
    return kind.fit(torch.split(sample_rows() if z is None else z, 13), LAYERS, facts)


def is_of_its_layers(kind: type[Normalization]) -> None:
    """Once fitted, it has its name and the layers that it was fitted for."""
    fitted = fit(kind)
    demand(fitted.name == kind.name and bool(kind.name), f"its name is {fitted.name!r}")
    demand(fitted.layers == LAYERS, f"its layers are {fitted.layers}, fitted for {LAYERS}")


def keeps_shape_and_memory(kind: type[Normalization]) -> None:
    """Rows keep their shape and stay layer-major in memory; the input does not change."""
    z = sample_rows()
    out = fit(kind)(z)
    demand(out.shape == z.shape, f"shape {tuple(z.shape)} became {tuple(out.shape)}")
    demand(out.transpose(0, 1).is_contiguous(), "out.transpose(0, 1) is not contiguous")
    demand(torch.equal(z, sample_rows()), "the rows that it was given changed")


def has_no_parameters(kind: type[Normalization]) -> None:
    """Its numbers are buffers: it has no parameters."""
    names = [name for name, _ in fit(kind).named_parameters()]
    demand(not names, f"it has {', '.join(names)}")


def is_saved_and_loaded(kind: type[Normalization]) -> None:
    """Its dict form is JSON with its name, and rebuilds it together with the state dict."""
    fitted = fit(kind)
    value = json.loads(json.dumps(fitted.to_json()))
    demand(value.get("name") == kind.name, f"its dict form says name {value.get('name')!r}")
    demand_loads(fitted, kind.from_json(value, LAYERS, DIM), sample_rows())


def learns_only_if_it_says_so(kind: type[Normalization]) -> None:
    """If it is ``fitted``, name and tensors rebuild it; if not, rows do not change what it does."""
    fitted, few = fit(kind), fit(kind, sample_rows()[:20])
    if kind.fitted:
        demand_loads(fitted, kind.from_json({"name": kind.name}, LAYERS, DIM), sample_rows())
        return
    demand(few.state_dict().keys() == fitted.state_dict().keys(), "its tensors depend on rows")
    same = torch.equal(few(sample_rows()), fitted(sample_rows()))
    demand(same, "what it does depends on rows")


def is_cut_to_layers(kind: type[Normalization]) -> None:
    """The part for some layers treats them as the whole does, and leaves the whole unchanged."""
    fitted, z = fit(kind), sample_rows()
    expected = fitted(z)
    for layers in (LAYERS, LAYERS[1:], LAYERS[:2], (0, 3), (2,)):
        indices = [LAYERS.index(layer) for layer in layers]
        part, rows = fitted.cut(layers), z.transpose(0, 1)[indices].transpose(0, 1)
        demand(part.layers == layers, f"the part of layers {layers} is of {part.layers}")
        demand(torch.equal(part(rows), expected[:, indices]), f"that of layers {layers} differs")
        demand_loads(part, kind.from_json(part.to_json(), layers, DIM), rows)
    demand(fitted.layers == LAYERS and torch.equal(fitted(z), expected), "cut changed the whole")


def widens_half_precision(kind: type[Normalization]) -> None:
    """Rows in half precision become float32, unless it changes nothing."""
    for dtype in (torch.float16, torch.bfloat16):
        z = sample_rows(dtype)
        fitted = fit(kind, z)
        out, wide = fitted(z), fitted(z.float())
        demand(out.dtype == torch.float32 or out is z, f"{dtype} rows became {out.dtype}")
        demand(torch.equal(out, wide.to(out.dtype)), f"{dtype} rows are not widened first")


def stands_massive_activations(kind: type[Normalization]) -> None:
    """A channel near 30,000 in float16 gives finite rows."""
    z = sample_rows(torch.float16)
    z[::7, 1, 2] = MASSIVE
    demand_finite("a value", fit(kind, z)(z))


NORMALIZATION_CHECKS: tuple[Check[type[Normalization]], ...] = (
    is_of_its_layers, keeps_shape_and_memory, has_no_parameters, is_saved_and_loaded,
    learns_only_if_it_says_so, is_cut_to_layers, widens_half_precision, stands_massive_activations,
)  # fmt: skip
"""What holds for every normalisation."""


NORMALIZATION = Contract("normalization", Normalization, NORMALIZATION_CHECKS)
check_normalization = NORMALIZATION.check
