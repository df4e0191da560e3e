"""Compute the units of an entry: run the model over their batches, gather rows, and write them."""

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TypeVar

import torch
from torch import Tensor

from probekit.backbone import StateSource, add_rows, states_at
from probekit.base.notices import ProgressBar
from probekit.base.tensors import ReusedMemory, carve, carved_bounds
from probekit.data.batches import TokenBatch, token_batches
from probekit.errors import StateRangeError
from probekit.extraction.plan import Plan, Unit, row_dtypes
from probekit.store.builder import EntryBuilder
from probekit.store.codec import fits
from probekit.store.layout import FeatureDtype

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_TOKENS = 512
"""Tokens of the measured pass on a CPU, where more take long and go no faster."""

_LEAST_TOKENS = 128
"""The same where so many are a large part of the entry; fewer would go slower than a batch does."""


@dataclass(frozen=True)
class LayerStatistics:
    """Range of one array's rows as they were gathered (rounded already, or not), layer by layer.

    Attributes:
        max_abs: largest finite ``|x|`` of each layer.
        non_finite: number of NaN and infinite values of each layer.
    """

    max_abs: tuple[float, ...]
    non_finite: tuple[int, ...]

    @classmethod
    def of(cls, block: Tensor) -> "LayerStatistics":
        """Measure a block of shape ``(layers, rows, dim)``; NaN and inf are counted, not hidden."""
        max_abs, non_finite = [0.0] * len(block), [0] * len(block)
        for index, layer in enumerate(block if block.numel() else ()):
            low, high = torch.aminmax(layer)  # makes no temporary copy of the layer, as abs() would
            if not math.isfinite(low.item() + high.item()):
                non_finite[index] = int((~torch.isfinite(layer)).sum())
                low, high = torch.aminmax(torch.nan_to_num(layer, 0.0, 0.0, 0.0))
            max_abs[index] = max(-low.item(), high.item())
        return cls(max_abs=tuple(max_abs), non_finite=tuple(non_finite))


@dataclass(frozen=True, kw_only=True, eq=False)
class ComputedUnit:
    """A unit's rows in memory.

    Attributes:
        unit: which one.
        blocks: per array, shape (layers, rows, dim); rows of deleted words are zeros.
        statistics: range of each array, per layer.
        memory: where the blocks lie, to be given back once they are written.
    """

    unit: Unit
    blocks: dict[str, Tensor]
    statistics: dict[str, LayerStatistics]
    memory: Tensor


def compute_unit(
    backbone: StateSource,
    plan: Plan,
    unit: Unit,
    on_tokens: Callable[[int], object],
    reused: ReusedMemory,
) -> ComputedUnit:
    """Run the model over one unit.

    Rows are rounded as they are gathered, so that a unit takes no more memory than what will be
    stored. Where something then is not finite, or beyond the stored dtype, the unit is computed
    once more as the model has it: the statistics tell what the model computes from what the dtype
    cannot hold, and another dtype can still be chosen.

    Args:
        backbone: the frozen model, or what stands in its place.
        plan: layout of the entry.
        unit: which unit.
        on_tokens: called after each batch with its number of real subwords.
        reused: gives the memory for the blocks.
    """
    dtypes = {
        name: row_dtypes(array, backbone.compute_dtype, plan.pooling)
        for name, array in plan.arrays.items()
    }
    exact, rounded = ({name: pair[of] for name, pair in dtypes.items()} for of in (0, 1))
    computed = _gather(backbone, plan, unit, rounded, on_tokens, reused)
    finite = not any(any(part.non_finite) for part in computed.statistics.values())
    if rounded == exact or (finite and all_fit(computed.statistics, plan.dtype)):
        return computed
    logger.info(
        "states of %s do not fit %s; reading them once more to find their range",
        plan.describe_unit(unit),
        plan.dtype,
    )
    reused.give_back(computed.memory)
    del computed  # or its memory would stay beside that of the second pass
    return _gather(backbone, plan, unit, exact, lambda count: None, reused)


def _gather(
    backbone: StateSource,
    plan: Plan,
    unit: Unit,
    dtypes: Mapping[str, torch.dtype],
    on_tokens: Callable[[int], object],
    reused: ReusedMemory,
) -> ComputedUnit:
    """Run the model over one unit, with a block of the given dtype for each array.

    On an accelerator the rows are gathered there and fetched at the end, all of them at once: a
    copy of each layer of each batch would make it wait.
    """
    buffers = {
        name: ((len(array.layers), unit.chunks[name] * array.chunk_rows, array.dim), dtypes[name])
        for name, array in plan.arrays.items()
    }
    size = carved_bounds(buffers)[-1]
    memory = reused.take(size)
    far = backbone.device.type != "cpu"
    near = torch.empty(size, dtype=memory.dtype, device=backbone.device) if far else memory
    # the buffers hold whole chunks, so each chunk but the last begins where the disk can fetch it,
    # see `store.files`; the unit's rows are their first ones
    gathered, blocks = (
        {
            name: buffer[:, : unit.rows[name]]
            for name, buffer in carve(memory_block, buffers).items()
        }
        for memory_block in (near, memory)
    )
    for block in gathered.values():
        block.zero_()
    for batch in batches_of(backbone, plan, unit):
        add_rows(backbone, batch, plan.layers, gathered)
        on_tokens(int(batch.lengths.sum()))
    statistics = {name: LayerStatistics.of(block) for name, block in gathered.items()}
    if far:
        memory[:size].copy_(near)
    return ComputedUnit(unit=unit, blocks=blocks, statistics=statistics, memory=memory)


def batches_of(backbone: StateSource, plan: Plan, unit: Unit) -> list[TokenBatch]:
    """Return the unit's batches; a function of unit, model and ``batch_tokens`` alone."""
    return list(
        token_batches(
            plan.encoded,
            unit.start,
            unit.stop,
            batch_tokens=plan.batch_tokens,
            pad_id=backbone.pad_id,
            pooling=plan.pooling,
            arrays=tuple(plan.arrays),
            batching=backbone.batching,
        )
    )


def tokens_per_second(backbone: StateSource, plan: Plan, *, share: float = 1.0) -> float:
    """Measure the forward pass on some of the entry's own sentences of middling length.

    Args:
        backbone: the frozen model.
        plan: of the entry.
        share: of the entry's tokens, how many are measured on a CPU: 128 at least, 512 at most,
            after a warm-up with a quarter as many. Elsewhere it is a batch.
    """
    batches = batches_of(backbone, plan, plan.largest_first[0])
    batch = batches[len(batches) // 2]
    count = len(batch.lengths)
    if backbone.device.type == "cpu":
        most = min(_MOST_TOKENS, max(int(share * plan.tokens), _LEAST_TOKENS))
        count = min(count, max(1, most // batch.input_ids.shape[1]))
    # a few first: they pay for allocation and kernel selection
    run_pass(backbone, plan, batch.first(-(-count // 4)))
    seconds = seconds_of(lambda: run_pass(backbone, plan, batch.first(count)))
    return int(batch.lengths[:count].sum()) / seconds


def run_pass(backbone: StateSource, plan: Plan, batch: TokenBatch) -> None:
    """Take the states of a batch, and wait for them."""
    states = [*states_at(backbone, batch, plan.layers).values()]
    states[-1][0, 0, 0].item()  # an accelerator returns before it is done; this waits for it


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def all_fit(statistics: Mapping[str, LayerStatistics], dtype: FeatureDtype) -> bool:
    """Say whether every finite value of every array lies in a dtype's range."""
    return all(fits(dtype, max(part.max_abs)) for part in statistics.values())


class BeyondFloat16Error(StateRangeError):
    """A value is finite, and too large for float16: another dtype holds it."""


def check_range(item: "ComputedUnit", plan: Plan, overflow: str) -> None:
    """Refuse values that the dtype of a plan cannot hold.

    Args:
        item: the unit.
        plan: of the entry.
        overflow: what values that are not finite come from, and what to do.

    Raises:
        StateRangeError: a value is NaN or infinite, or exceeds float16's range
            (`BeyondFloat16Error`).
    """
    examples = plan.describe_unit(item.unit)
    for name, part in item.statistics.items():
        layers = plan.arrays[name].layers
        for layer, largest, bad in zip(layers, part.max_abs, part.non_finite, strict=True):
            if bad:
                raise StateRangeError(
                    f"layer {layer} of {examples} holds {bad} NaN or infinite values, which no "
                    f"dtype stores. {overflow}"
                )
            if plan.dtype == "float16" and not fits("float16", largest):
                raise BeyondFloat16Error(
                    f"layer {layer} of {examples} has values up to {largest:,.0f}; float16 ends at "
                    "65,504. Nothing out of range was written."
                )


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
        logger.warning(
            "%s: stopped; %d of %d units are finished and kept.", title, kept, len(units)
        )
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
