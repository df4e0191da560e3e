"""Compute one unit: run the model over its batches, gather rows, and see whether they fit."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from probekit.backbone import StateSource, add_rows
from probekit.base.machine.buffers import ReusedMemory, carve, carved_bounds
from probekit.data.batches import TokenBatch, token_batches
from probekit.errors import StateRangeError
from probekit.extraction.plan import Plan, row_dtypes
from probekit.extraction.units import Unit
from probekit.store.arrays import FeatureDtype
from probekit.store.codec import fits

logger = logging.getLogger(__name__)


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
        for place, layer in enumerate(block if block.numel() else ()):
            low, high = torch.aminmax(layer)  # makes no temporary copy of the layer, as abs() would
            if not math.isfinite(low.item() + high.item()):
                non_finite[place] = int((~torch.isfinite(layer)).sum())
                low, high = torch.aminmax(torch.nan_to_num(layer, 0.0, 0.0, 0.0))
            max_abs[place] = max(-low.item(), high.item())
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
    exact = {name: pair[0] for name, pair in dtypes.items()}
    rounded = {name: pair[1] for name, pair in dtypes.items()}
    found = _gather(backbone, plan, unit, rounded, on_tokens, reused)
    finite = not any(any(part.non_finite) for part in found.statistics.values())
    if rounded == exact or (finite and all_fit(found.statistics, plan.dtype)):
        return found
    logger.info(
        "states of %s do not fit %s: going over them once more, to see their range",
        plan.describe_unit(unit),
        plan.dtype,
    )
    reused.give_back(found.memory)
    del found  # or its memory would stay beside that of the second pass
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
    far = _is_far(backbone)
    near = torch.empty(size, dtype=memory.dtype, device=backbone.device) if far else memory
    # the buffers hold whole chunks, so each chunk but the last begins where the disk can fetch it,
    # see `store.files`; the unit's rows are their first ones
    gathered, blocks = (
        {name: buffer[:, : unit.rows[name]] for name, buffer in carve(place, buffers).items()}
        for place in (near, memory)
    )
    for block in gathered.values():
        block.zero_()
    layers = {name: array.layers for name, array in plan.arrays.items()}
    for batch in batches_of(backbone, plan, unit):
        add_rows(backbone, batch, layers, gathered)
        on_tokens(int(batch.lengths.sum()))
    statistics = {name: LayerStatistics.of(block) for name, block in gathered.items()}
    if far:
        memory[:size].copy_(near)
    return ComputedUnit(unit=unit, blocks=blocks, statistics=statistics, memory=memory)


def _is_far(backbone: StateSource) -> bool:
    """Say whether the states are elsewhere than the memory that is written from."""
    return backbone.device.type != "cpu"


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
    place = plan.describe_unit(item.unit)
    for name, part in item.statistics.items():
        layers = plan.arrays[name].layers
        for layer, largest, bad in zip(layers, part.max_abs, part.non_finite, strict=True):
            if bad:
                raise StateRangeError(
                    f"layer {layer} of {place} holds {bad} NaN or infinite values, which no dtype "
                    f"stores. {overflow}"
                )
            if plan.dtype == "float16" and not fits("float16", largest):
                raise BeyondFloat16Error(
                    f"layer {layer} of {place} reaches |x| = {largest:,.0f}; float16 ends at "
                    "65,504. Nothing out of range was written."
                )
