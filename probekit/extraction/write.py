"""Write the units of one entry as they are computed: disk and model work side by side."""

import queue
import threading
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar

from probekit.backbone import Backbone
from probekit.base.machine.buffers import ReusedMemory
from probekit.base.messages.progress import ProgressBar
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
        WriterThread[ComputedUnit](lambda item: _write(builder, item, reused, how)) as writer,
    ):
        for unit in todo:
            item = computed.pop(unit.index, None)
            if item is None:
                item = compute_unit(backbone, plan, unit, bar.update, reused)
            check_range(item, plan)
            writer.put(item)
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
    builder: EntryBuilder, item: ComputedUnit, reused: ReusedMemory, computed: Mapping[str, Any]
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


class WriterThread(Generic[T]):
    """Call ``write(item)`` for every item put, in order, on one background thread.

    ``put`` waits until the item before is written, so the thread never holds two. Its first error
    is raised again by the next ``put`` or on leaving the context; items after it are dropped.
    """

    def __init__(self, write: Callable[[T], None]) -> None:
        """Start the thread."""
        self._write = write
        self._queue: queue.Queue[T | None] = queue.Queue(maxsize=1)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="probekit-writer", daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Hand ``item`` over; waits until the one before is written."""
        self._queue.join()
        self._raise_error()
        self._queue.put(item)

    def __enter__(self) -> "WriterThread[T]":
        """Return the writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait until all is written; the thread's error is raised unless one is under way."""
        self._queue.put(None)
        self._thread.join()
        if error is None:
            self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self._write(item)
                except BaseException as error:  # handed to the caller's thread, not swallowed
                    self._error = error
            del item  # while the thread waits for the next one, nothing keeps this one in memory
            self._queue.task_done()
