"""Write the units of one entry as they are computed: disk and model work side by side."""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from probekit.backbone import Backbone
from probekit.base.machine.buffers import ReusedMemory
from probekit.base.notices import ProgressBar
from probekit.extraction.compute import ComputedUnit, check_range, compute_unit
from probekit.extraction.plan import Plan
from probekit.store.builder import EntryBuilder

T = TypeVar("T")


def write_units(
    backbone: Backbone,
    plan: Plan,
    builder: EntryBuilder,
    *,
    computed: dict[int, ComputedUnit],
    reused: ReusedMemory,
    progress: bool,
    title: str,
) -> None:
    """Compute and write every unit that is not done yet.

    Args:
        backbone: the frozen model.
        plan: layout, in the dtype that is stored.
        builder: the entry under construction.
        computed: units that were computed already, by index; taken out as they are written, so
            that their memory is used again.
        reused: gives the memory for units, and takes it back.
        progress: show progress on stderr.
        title: the bar's title.

    Raises:
        StateRangeError: a value is not finite, or out of the dtype's range; units before it stay.
        StorageError: a unit could not be written.
    """
    todo = [unit for unit in plan.largest_first if unit.index not in builder.done_units]
    for index in builder.done_units & computed.keys():  # by an earlier run
        reused.give_back(computed.pop(index).memory)
    done = builder.done_units | computed.keys()
    how = {"device": str(backbone.device), "batch_tokens": plan.batch_tokens}
    with (
        token_bar(plan, title, done=done, progress=progress) as bar,
        writer_thread(partial(_write, builder, reused, how)) as put,
    ):
        for unit in todo:
            item = computed.pop(unit.index, None)
            if item is None:
                item = compute_unit(backbone, plan, unit, bar.update, reused)
            check_range(item, plan)
            put(item)
            del item  # the next unit is computed while this one is written


def token_bar(
    plan: Plan, title: str, *, done: Collection[int] = (), leave: bool = True, progress: bool
) -> ProgressBar:
    """Return a bar over the subwords of a plan; the units of ``done`` count from the start."""
    tokens = {unit.index: plan.unit_tokens(unit) for unit in plan.units}
    return ProgressBar(
        total=sum(tokens.values()),
        initial=sum(tokens[index] for index in done),
        desc=title,
        unit="tok",
        unit_scale=True,
        leave=leave,
        shown=progress,
    )


def _write(
    builder: EntryBuilder, reused: ReusedMemory, computed: Mapping[str, Any], item: ComputedUnit
) -> None:
    statistics = {
        name: {"max_abs": list(part.max_abs), "non_finite": list(part.non_finite)}
        for name, part in item.statistics.items()
    }
    builder.write_unit(
        item.unit.index,
        item.unit.row_start,
        item.blocks,
        stats={"statistics": statistics, "computed": computed},
    )
    reused.give_back(item.memory)


@contextmanager
def writer_thread(write: Callable[[T], None]) -> Iterator[Callable[[T], None]]:
    """Yield what hands an item to ``write``, in order, on one background thread.

    It waits until the item before is written, so the thread never holds two. An error of the thread
    is raised by the next call, whose item is dropped, or on leaving the context unless another one
    is under way.
    """
    with ThreadPoolExecutor(1, "probekit-writer") as thread:
        last: Future[None] | None = None

        def put(item: T) -> None:
            nonlocal last
            if last is not None:
                last.result()
            last = thread.submit(write, item)

        yield put
        if last is not None:
            last.result()
