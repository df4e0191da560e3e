"""Rows of hidden states: run a backbone over batches and pool what it returns into buffers."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.backbone.model import Backbone
from probekit.base.kinds import ARRAYS
from probekit.data.encoded import EncodedSplit
from probekit.data.pooling import Pooling, pool
from probekit.data.token_batch import TokenBatch, token_batches


def add_rows(
    backbone: Backbone,
    batch: TokenBatch,
    layers: Mapping[str, Sequence[int]],
    blocks: Mapping[str, Float[Tensor, "_ _ dim"]],
) -> None:
    """Run the model over one batch and write its rows into the buffer of each array.

    Nothing of the batch outlives the call, so two batches never lie in memory at once.

    Args:
        backbone: the frozen model.
        batch: with picks for every array of ``layers``.
        layers: per array, the layer numbers along axis 0 of its buffer.
        blocks: per array, a buffer of shape (layers, rows, dim), on any device.
    """
    wanted = sorted({layer for numbers in layers.values() for layer in numbers})
    found = backbone.layers(batch.input_ids, batch.lengths, wanted, batch.token_types)
    states = dict(zip(wanted, found, strict=True))
    for name, numbers in layers.items():
        picks = batch.picks[name].to(backbone.device, blocks[name].device)
        for block, layer in zip(blocks[name], numbers, strict=True):
            pool(states[layer], picks, block)


def read_arrays(
    backbone: Backbone,
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
            backbone.info.dim,
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
        pad_id=backbone.inspection.pad_id,
        pooling=pooling,
        arrays=tuple(layers),
        batching=backbone.batching,
    )
    for batch in batches:
        add_rows(backbone, batch, layers, blocks)
    return {name: block.to(dtype).transpose(0, 1) for name, block in blocks.items()}
