"""Rows of hidden states: take those of batches from their source, and pool them into buffers."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.backbone.facts import BackboneInfo
from probekit.base.kinds import ARRAYS
from probekit.base.layers import RESID_POST
from probekit.data.batches import Batching, TokenBatch, pool, token_batches
from probekit.data.encoded import EncodedSplit, Pooling
from probekit.probe.model_parts import FinalNorm

PointLayers = Mapping[str, Sequence[int]]
"""Points besides the residual stream, each with the layers that are wanted of it."""

NO_POINTS: PointLayers = MappingProxyType({})
"""The residual stream alone."""


@runtime_checkable
class StateSource(Protocol):
    """Where hidden states come from: a model that runs, or files that another program wrote."""

    @property
    def info(self) -> BackboneInfo:
        """The facts of the model whose states they are."""

    @property
    def device(self) -> torch.device:
        """Where the states are."""

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype of the states."""

    @property
    def compute_dtype_name(self) -> str:
        """The same as manifests write it ("bfloat16")."""

    @property
    def batching(self) -> Batching:
        """Which windows may share a batch."""

    @property
    def pad_id(self) -> int:
        """The id that fills padding."""

    @property
    def final_norm(self) -> FinalNorm | None:
        """The norm after the last block, where it is known."""

    @property
    def computed_on(self) -> str:
        """What made the states, as manifests write it: a device, or ``imported``."""

    @property
    def overflow(self) -> str:
        """What values that are not finite come from, and what to do, for a message."""

    def states_of(
        self, batch: TokenBatch, layers: Sequence[int], points: PointLayers = NO_POINTS
    ) -> list[Float[Tensor, "batch time _"]]:
        """Return layers of a batch's windows, right-padded, then the layers of other points."""

    def width_at(self, point: str) -> int:
        """Return how wide the states of a point are."""

    def config_json(self) -> dict[str, Any]:
        """Return the model's configuration as JSON values; empty where it is not known."""


def add_rows(
    backbone: StateSource,
    batch: TokenBatch,
    layers: Mapping[str, Sequence[int]],
    blocks: Mapping[str, Float[Tensor, "_ _ dim"]],
) -> None:
    """Take the states of one batch and write its rows into the buffer of each array.

    Nothing of the batch outlives the call, so two batches never lie in memory at once.

    Args:
        backbone: the frozen model, or what stands in its place.
        batch: with picks for every array of ``layers``.
        layers: per array, the layer numbers along axis 0 of its buffer.
        blocks: per array, a buffer of shape (layers, rows, dim), on any device.
    """
    states = states_at(backbone, batch, layers)
    for name, numbers in layers.items():
        picks = batch.picks[name].to(backbone.device, blocks[name].device)
        for block, layer in zip(blocks[name], numbers, strict=True):
            pool(states[ARRAYS[name].point, layer], picks, block)


def states_at(
    backbone: StateSource, batch: TokenBatch, layers: Mapping[str, Sequence[int]]
) -> dict[tuple[str, int], Float[Tensor, "batch time _"]]:
    """Take the states of one batch that the layers of some arrays need, by point and layer."""
    wanted: dict[str, set[int]] = {RESID_POST: set()}
    for name, numbers in layers.items():
        wanted.setdefault(ARRAYS[name].point, set()).update(numbers)
    points = {point: sorted(numbers) for point, numbers in wanted.items()}
    keys = [(point, layer) for point, numbers in points.items() for layer in numbers]
    stream = points.pop(RESID_POST)
    return dict(zip(keys, backbone.states_of(batch, stream, points), strict=True))


def read_arrays(
    backbone: StateSource,
    encoded: EncodedSplit,
    start: int,
    stop: int,
    *,
    layers: Mapping[str, Sequence[int]],
    pooling: Pooling,
    batch_tokens: int,
    dtype: torch.dtype,
) -> dict[str, Float[Tensor, "_ _ dim"]]:
    """Return the rows of some arrays of the examples ``start`` to ``stop`` (excluded).

    Args:
        backbone: the frozen model.
        encoded: the examples, encoded with the backbone's tokenizer.
        start: first example.
        stop: one past the last example.
        layers: per array, the layer numbers along axis 1, in any order.
        pooling: which subwords make a word's row.
        batch_tokens: padded tokens per batch; 1 makes every window a batch of its own.
        dtype: what rows are rounded to, as the cache would; words without subwords are zeros.
    """
    blocks = {
        name: torch.zeros(
            len(numbers),
            int(encoded.rows[name][start:stop].sum()),
            backbone.width_at(ARRAYS[name].point),
            # the windows of a text add up to its mean
            dtype=torch.float32 if ARRAYS[name].averages else dtype,
        )
        for name, numbers in layers.items()
    }
    batches = token_batches(
        encoded,
        start,
        stop,
        batch_tokens=batch_tokens,
        pad_id=backbone.pad_id,
        pooling=pooling,
        arrays=tuple(layers),
        batching=backbone.batching,
    )
    for batch in batches:
        add_rows(backbone, batch, layers, blocks)
    return {name: block.to(dtype).transpose(0, 1) for name, block in blocks.items()}
