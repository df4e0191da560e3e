"""Write one entry: its units as they are computed, and what it holds besides rows."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np

from probekit.backbone import Backbone
from probekit.base.fingerprint import canonical_json
from probekit.base.machine.buffers import ReusedMemory
from probekit.base.notices import ProgressBar
from probekit.data.stored import columns_of
from probekit.extraction.compute import ComputedUnit, check_range, compute_unit
from probekit.extraction.extract_target import Place
from probekit.extraction.plan import Plan
from probekit.extraction.units import example_row_starts
from probekit.store.builder import EntryBuilder
from probekit.store.manifest import Manifest
from probekit.store.tables import STARTS, ExampleTable
from probekit.tasks import Split, Task, is_own
from probekit.version import __version__

T = TypeVar("T")

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "zarr", "h5py")


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
    todo = [unit for unit in plan.largest_first if unit.index not in builder.marks]
    for index in builder.marks.keys() & computed.keys():  # by an earlier run
        reused.give_back(computed.pop(index).memory)
    done = builder.marks.keys() | computed.keys()
    how = {"device": str(backbone.device), "batch_tokens": plan.batch_tokens}

    def write(item: ComputedUnit) -> None:
        statistics = {name: asdict(part) for name, part in item.statistics.items()}
        stats = {"statistics": statistics, "computed": how}
        builder.write_unit(item.unit.index, item.unit.row_start, item.blocks, stats=stats)
        reused.give_back(item.memory)

    with (
        token_bar(plan, title, done=done, progress=progress) as bar,
        writer_thread(write) as put,
    ):
        for unit in todo:
            item = computed.pop(unit.index, None)
            if item is None:
                item = compute_unit(backbone, plan, unit, bar.report, reused)
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


def make_manifest(
    place: Place,
    split: Split,
    task: Task,
    plan: Plan,
    backbone: Backbone,
    unit_stats: Sequence[Mapping[str, Any]],
) -> Manifest:
    """Describe a complete entry.

    Args:
        place: where it lies, and what was asked for.
        split: the split.
        task: its task.
        plan: what was written.
        backbone: the model.
        unit_stats: what its units say of themselves, in their order.
    """
    info = backbone.info
    return Manifest(
        key=place.key,
        request=place.request,
        model=place.model,
        task=task.slug if is_own(task) else task.name,
        split=split.name,
        kind=task.kind,
        backend=place.request["format"],
        dtype=plan.dtype,
        compute_dtype=backbone.compute_dtype_name,
        pooling=plan.pooling,
        arrays=tuple(plan.arrays.values()),
        n_blocks=info.n_blocks,
        dim=info.dim,
        causal=info.causal,
        final_norm=info.final_norm,
        counts=plan.encoded.counts,
        statistics=total_statistics(unit_stats),
        model_info=info.to_json(),
        origin=split.origin,
        versions={"probekit": __version__, **{name: version(name) for name in _LIBRARIES}},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        extra={
            "limit": split.limit,
            "computed": _ways_of_computing(unit_stats),
            "batching": asdict(backbone.batching),
            "units": [unit.start for unit in plan.units],
        },
    )


def total_statistics(unit_stats: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Combine the statistics of all units into the manifest's form, a number for each layer."""
    of_units = [stats["statistics"] for stats in unit_stats]
    return {
        what: {
            name: [total(layer) for layer in zip(*(of[name][what] for of in of_units), strict=True)]
            for name in sorted(of_units[0])  # marks that are read again have another order
        }
        for what, total in (("max_abs", max), ("non_finite", sum))
    }


def _ways_of_computing(unit_stats: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return how units were computed: each way once, with the numbers of its units."""
    ways: dict[str, dict[str, Any]] = {}
    for unit, stats in enumerate(unit_stats):
        computed = dict(sorted(stats["computed"].items()))  # a mark that is read again is sorted
        way = ways.setdefault(canonical_json(computed), {**computed, "units": []})
        way["units"].append(unit)
    return list(ways.values())


def example_table(split: Split, plan: Plan) -> ExampleTable:
    """Return the examples with their rows and subwords; -1 where an array was not kept."""
    encoded = plan.encoded
    passes = len(encoded.ids) // max(len(split.examples), 1)  # one after the other
    examples = [example for example in split.examples for _ in range(passes)]
    starts = example_row_starts(plan.units, {name: encoded.rows[name] for name in plan.arrays})
    absent = np.full(len(encoded.ids), -1, np.int64)
    columns = {
        **columns_of(encoded),
        "words": [list(example.words) for example in examples],
        "row_start": absent,
        "token_start": absent,
        **{  # arrays that share a column have the same first rows
            column: starts[name]
            for column, arrays in STARTS.items()
            for name in arrays
            if name in starts
        },
    }
    for name in ("text", "text_pair"):
        texts = [getattr(example, name) for example in examples]
        if any(text is not None for text in texts):
            columns[name] = texts
    return ExampleTable.from_columns(columns)
