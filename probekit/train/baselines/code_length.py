"""Minimum description length by online code: what it costs to send the labels with the probe.

Voita & Titov (2020), section 3.2. The train labels are sent in growing blocks (``SHARES``). The
first one is sent with a uniform code, and each later one with the code of a probe that was trained
on all blocks before it:

    L = t_1 log2 C - sum_i log2 p(y of block i + 1 | x, probe of blocks 1..i)

Blocks are joined until they hold two classes, since a probe needs something to tell apart. A solved
probe has no score for a class that it has not seen; such a label is sent by Laplace's rule, as if
each of the C classes had been seen once more than it was.

A probe that needs few examples, or none of its capacity, sends them cheaply. Compression is the
length of the uniform code divided by L.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64

from probekit.base.numbers.seeding import numpy_generator
from probekit.base.selection import Selection
from probekit.features import FeatureView
from probekit.metrics import METRICS
from probekit.probe.decoders import IGNORED
from probekit.train.fit import fit_group
from probekit.train.member import MemberSpec
from probekit.train.option_groups import Steps
from probekit.train.stream import StreamSpec

SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks, as shares of the examples."""

_NEXT = "next block"


@dataclass(frozen=True, kw_only=True)
class CodeLength:
    """The cost of sending a train set's labels.

    Attributes:
        bits: length L of the online code.
        uniform_bits: length of the uniform code, rows times log2 C.
        n_rows: labels that were sent.
        diverged: whether the training of a probe did, so that some labels may cost without end.
    """

    bits: float
    uniform_bits: float
    n_rows: int
    diverged: bool = False

    @property
    def compression(self) -> float:
        """How much shorter the online code is than the uniform one; 1 is no use at all."""
        return self.uniform_bits / self.bits if self.bits else 1.0  # a single class costs nothing

    @property
    def bits_per_row(self) -> float:
        """Bits per label."""
        return self.bits / self.n_rows


def online_code(
    members: Sequence[MemberSpec],
    train: FeatureView,
    dev: FeatureView,
    *,
    n_classes: int,
    seed: int,
    steps: Steps,
    device: str = "cpu",
    memory: int | None = None,
) -> list[CodeLength]:
    """Return the code length of each member.

    Args:
        members: the probes; they share every block.
        train: the examples whose labels are sent, in an order that the seed decides.
        dev: its loss chooses each probe's checkpoint or strength of L2, as its length is what
            counts: a strength that tells classes apart best may be far too sure of them.
        n_classes: C of the uniform code: the labels that train has.
        seed: decides order, initialisation and dropout.
        steps: those of each probe over the blocks that it may see; a solver takes none.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        memory: bytes that rows may take.
    """
    filled = np.flatnonzero(train.lengths)  # a sentence may have lost all its words
    order = filled[numpy_generator(seed, "online code").permutation(len(filled))]
    # small blocks cannot choose a strength
    by_dev = [replace(probe, select=probe.select and Selection("dev")) for probe in members]
    # 3,000 examples end blocks at 3, 6, 12, ..., 3,000; if the first 6 are of one class, at 12, ...
    ends = [end for end in block_ends(len(order)) if _classes(train.take(order[:end])) > 1]
    ends = ends or [len(order)]
    first = len(train.take(order[: ends[0]]))
    nats = np.full(len(members), first * math.log(n_classes))
    diverged = np.zeros(len(members), bool)
    for start, stop in itertools.pairwise(ends):
        sent, following = train.take(order[:start]), train.take(order[start:stop])
        stream = StreamSpec(train=sent, seed=seed, steps=steps, members=tuple(by_dev))
        cost, failed = _send(following, stream, dev, n_classes, device=device, memory=memory)
        nats += cost
        diverged |= failed
    uniform = len(train) * math.log2(n_classes)
    return [
        CodeLength(bits=bits, uniform_bits=uniform, n_rows=len(train), diverged=failed)
        for bits, failed in zip((nats / math.log(2)).tolist(), diverged.tolist(), strict=True)
    ]


def _send(
    following: FeatureView,
    stream: StreamSpec,
    dev: FeatureView,
    n_classes: int,
    *,
    device: str,
    memory: int | None,
) -> tuple[Float64[np.ndarray, " members"], Bool[np.ndarray, " members"]]:
    """Return the nats of a block's labels by each probe of a stream, and whether it diverged."""
    scored, beside = following, 0.0
    if stream.solved:
        scored, beside = _without_new(following, stream.train, n_classes)
    (fitted,) = fit_group(
        [stream], dev, {_NEXT: scored}, metric=METRICS["perplexity"], device=device, memory=memory
    )
    losses = np.array([result.scores[f"{_NEXT}/loss"] for result in fitted])
    return losses * len(following) + beside, np.array([result.diverged for result in fitted])


def _without_new(
    following: FeatureView, sent: FeatureView, n_classes: int
) -> tuple[FeatureView, float]:
    """Return a block without the labels of classes that were not sent before, and their cost.

    Args:
        following: the block.
        sent: all before it.
        n_classes: C.

    Returns:
        The block, its new labels not to be scored, and the nats by Laplace's rule that say of each
        label whether its class is new, and of a new one which it is.
    """
    # C = 4, sent A A B, next B C A: by Laplace's rule each of the 2 unsent classes has one of 3 + 4
    # parts, so C costs log 7, and that B and A are not new costs -log(1 - 2/7) each.
    new = ~np.isin(following.targets, sent.targets)
    total = len(sent) + n_classes
    n_unsent = n_classes - _classes(sent)
    old = np.count_nonzero(~new) * math.log1p(-n_unsent / total)
    targets = np.where(new, IGNORED, following.targets)
    return replace(following, targets=targets), np.count_nonzero(new) * math.log(total) - old


def _classes(view: FeatureView) -> int:
    return len(np.unique(view.targets))


def block_ends(n_examples: int) -> list[int]:
    """Return where each block ends, in examples: each at least one, none twice."""
    return sorted({max(1, round(share * n_examples)) for share in SHARES})
