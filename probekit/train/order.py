"""The order of training: blocks of sentences are shuffled, then sentences inside a buffer.

A split that fits one buffer is shuffled completely. The order depends on seed, epoch and sentence
lengths alone, never on how much memory there is, so a run that streams from disk and one that
holds its rows in memory take the same steps.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int64

from probekit.base.numbers.seeding import numpy_generator

BLOCK_ROWS = 512
BUFFER_ROWS = 32_768


def epoch_order(
    lengths: Int64[np.ndarray, " sentences"], seed: int, epoch: int
) -> Int64[np.ndarray, " sentences"]:
    """Return the order in which one epoch visits the sentences.

    Args:
        lengths: rows of each sentence.
        seed: the run's seed.
        epoch: counted from 0.
    """
    # Of 100,000 rows in sentences of 10 there are 196 blocks of about 51 sentences, and 64 blocks
    # fill a buffer:
    #
    #   blocks     3 1 0 2 ...            in a drawn order
    #   buffers    3 1 0 .. | 2 .. | ..   64 blocks each, the last one of 4
    #   order      the sentences of the first buffer, drawn; then those of the second, ...
    #
    # So steps beside each other read from the same 64 stretches of the disk. 30,000 rows are 59
    # blocks, which are one buffer.
    rng = numpy_generator(seed, "order", epoch)
    # Sentences of 3, 4 and 2 rows, cut at every 4: they begin at rows 0 3 7, which lie in the runs
    # 0 0 1, and a block begins wherever that number rises: [0 1] [2].
    ends = np.cumsum(lengths)
    starts_block = np.diff((ends - lengths) // BLOCK_ROWS, prepend=-1) > 0
    blocks = np.split(np.arange(len(lengths)), np.flatnonzero(starts_block)[1:])
    if len(blocks) * BLOCK_ROWS <= BUFFER_ROWS:
        return rng.permutation(len(lengths))
    blocks = [blocks[index] for index in rng.permutation(len(blocks))]
    per_buffer = BUFFER_ROWS // BLOCK_ROWS
    buffers = [
        np.concatenate(blocks[start : start + per_buffer])
        for start in range(0, len(blocks), per_buffer)
    ]
    return np.concatenate([rng.permutation(buffer) for buffer in buffers])


def batches(
    lengths: Int64[np.ndarray, " sentences"], *, seed: int, epochs: int, batch_size: int
) -> Iterator[Int64[np.ndarray, " batch"]]:
    """Yield the sentences of each step of all epochs; the last step of an epoch may be smaller."""
    for epoch in range(epochs):
        order = epoch_order(lengths, seed, epoch)
        for start in range(0, len(order), batch_size):
            yield order[start : start + batch_size]
