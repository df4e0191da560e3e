"""Compute and write the units of one entry, with the disk and the model working side by side."""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jaxtyping import Int64
from torch import Tensor

from probekit.backbone import Backbone
from probekit.base.fingerprint import canonical_json
from probekit.base.machine.buffers import ReusedMemory
from probekit.base.messages.progress import ProgressBar
from probekit.data.token_batch import TokenBatch
from probekit.extraction.compute import ComputedUnit, batches_of, compute_unit
from probekit.extraction.plan import Plan
from probekit.extraction.statistics import LayerStatistics, check_range
from probekit.extraction.writer import WriterThread
from probekit.store.builder import EntryBuilder

logger = logging.getLogger(__name__)

_PROBE_TOKENS = 512
"""Tokens of the measured pass on a CPU, where more take long and go no faster."""

_LEAST_PROBE_TOKENS = 128
"""The same where so many are a large part of the entry; fewer would go slower than a batch does."""


def tokens_per_second(backbone: Backbone, plan: Plan, *, share: float = 1.0) -> float:
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
        fair = int(share * plan.encoded.window_lengths.sum())
        most = min(_PROBE_TOKENS, max(fair, _LEAST_PROBE_TOKENS))
        count = min(count, max(1, most // batch.input_ids.shape[1]))
    # a few first: they pay for allocation and kernel selection
    _, seconds = (_probe_seconds(backbone, plan, batch, n) for n in (-(-count // 4), count))
    return int(batch.lengths[:count].sum()) / seconds


def _probe_seconds(backbone: Backbone, plan: Plan, batch: TokenBatch, count: int) -> float:
    """Return the seconds of a forward pass over the first windows of a batch."""
    lengths = batch.lengths[:count]
    ids = batch.input_ids[:count, : int(lengths.max())]
    types = None if batch.token_types is None else batch.token_types[:count, : ids.shape[1]]
    return forward_seconds(backbone, ids, lengths, plan.layers, types)


def forward_seconds(
    backbone: Backbone,
    ids: Int64[Tensor, "batch time"],
    lengths: Int64[Tensor, " batch"],
    layers: Sequence[int] | None,
    token_types: Int64[Tensor, "batch time"] | None,
) -> float:
    """Return the seconds of one forward pass; for the arguments see ``Backbone.layers``."""
    start = time.perf_counter()
    states = backbone.layers(ids, lengths, layers, token_types)
    states[-1][0, 0, 0].item()  # an accelerator returns before it is done; this waits for it
    return time.perf_counter() - start


def write_units(
    backbone: Backbone,
    plan: Plan,
    builder: EntryBuilder,
    *,
    computed: dict[int, ComputedUnit],
    reused: ReusedMemory,
    remedy: str,
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
        remedy: the command to rerun when a value is out of range.
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
            _guard(plan, item, remedy)
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


def _guard(plan: Plan, item: ComputedUnit, remedy: str) -> None:
    layers = {name: array.layers for name, array in plan.arrays.items()}
    place = plan.describe_unit(item.unit)
    check_range(item.statistics, layers, plan.dtype, place=place, remedy=remedy)


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


def total_statistics(unit_stats: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Combine the statistics of all units into the manifest's form."""
    of_units = [stats["statistics"] for stats in unit_stats]
    arrays: dict[str, dict[str, list[float]]] = {"max_abs": {}, "non_finite": {}}
    for name in sorted(of_units[0]):  # marks that are read again have another order
        merged = LayerStatistics.merge(
            [
                LayerStatistics(
                    max_abs=tuple(stats[name]["max_abs"]),
                    non_finite=tuple(stats[name]["non_finite"]),
                )
                for stats in of_units
            ]
        )
        arrays["max_abs"][name] = list(merged.max_abs)
        arrays["non_finite"][name] = list(merged.non_finite)
    return arrays


def ways_of_computing(unit_stats: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return how units were computed: each way once, with the numbers of its units."""
    ways: dict[str, dict[str, Any]] = {}
    for unit, stats in enumerate(unit_stats):
        computed = dict(sorted(stats["computed"].items()))  # a mark that is read again is sorted
        way = ways.setdefault(canonical_json(computed), {**computed, "units": []})
        way["units"].append(unit)
    return list(ways.values())
