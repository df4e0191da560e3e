"""Write the units of an entry as they are computed, and tell how far that is."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TypeVar

import torch

from probekit.backbone import StateSource
from probekit.base.machine.buffers import ReusedMemory
from probekit.base.notices import ProgressBar
from probekit.extraction.compute import ComputedUnit, check_range, compute_unit
from probekit.extraction.plan import Plan
from probekit.extraction.units import Unit
from probekit.store.builder import EntryBuilder

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """Who hears how far an extraction is.

    Attributes:
        shown: whether a bar shows it on stderr.
        heard: called with the number of subwords that were just read.
    """

    shown: bool
    heard: Callable[[int], object] = lambda count: None


def write_units(
    backbone: StateSource,
    plan: Plan,
    units: Sequence[Unit],
    builder: EntryBuilder,
    *,
    computed: dict[int, ComputedUnit],
    reused: ReusedMemory,
    progress: Progress,
    title: str,
) -> None:
    """Compute and write every unit that is not done yet.

    Args:
        backbone: the frozen model.
        plan: layout, in the dtype that is stored.
        units: those that are to be written, in the order in which they are computed.
        builder: the entry under construction.
        computed: units that were computed already, by index; taken out as they are written, so
            that their memory is used again.
        reused: gives the memory for units, and takes it back.
        progress: who hears of it.
        title: the bar's title.

    Raises:
        StateRangeError: a value is not finite, or out of the dtype's range; units before it stay.
        StorageError: a unit could not be written.
    """
    todo = [unit for unit in units if unit.index not in builder.marks]
    for index in computed.keys() - {unit.index for unit in todo}:  # an earlier run's, or a shard's
        reused.give_back(computed.pop(index).memory)
    done = builder.marks.keys() | computed.keys()
    how = {"device": backbone.computed_on, "batch_tokens": plan.batch_tokens}
    if backbone.computed_on == "cpu":
        how["threads"] = torch.get_num_threads()

    def write(item: ComputedUnit) -> None:
        statistics = {name: asdict(part) for name, part in item.statistics.items()}
        stats = {"statistics": statistics, "computed": how}
        builder.write_unit(item.unit.index, item.unit.row_start, item.blocks, stats=stats)
        reused.give_back(item.memory)

    try:
        with (
            counted_tokens(plan, units, title, done=done, progress=progress) as report,
            writer_thread(write) as put,
        ):
            for unit in todo:
                item = computed.pop(unit.index, None)
                if item is None:
                    item = compute_unit(backbone, plan, unit, report, reused)
                check_range(item, plan, backbone.overflow)
                put(item)
                del item  # the next unit is computed while this one is written
    except KeyboardInterrupt:
        kept = sum(unit.index in builder.marks for unit in units)
        logger.warning("%s: %d of %d units are finished, and kept.", title, kept, len(units))
        raise


@contextmanager
def counted_tokens(
    plan: Plan,
    units: Sequence[Unit],
    title: str,
    *,
    done: Collection[int] = (),
    leave: bool = True,
    progress: Progress,
) -> Iterator[Callable[[int], object]]:
    """Yield what hears of the subwords of units that are read; those of ``done`` count before."""
    tokens = {unit.index: plan.unit_tokens(unit) for unit in units}
    with ProgressBar(
        total=sum(tokens.values()),
        initial=sum(count for index, count in tokens.items() if index in done),
        desc=title,
        unit="tok",
        unit_scale=True,
        leave=leave,
        shown=progress.shown,
    ) as bar:

        def report(count: int) -> None:
            bar.report(count)
            progress.heard(count)

        yield report


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
