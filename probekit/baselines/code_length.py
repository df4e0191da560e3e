"""Minimum description length by online code: what it costs to send the labels with the probe.

Voita & Titov (2020), section 3.2. The train labels are sent in growing blocks (``SHARES``). The
first one is sent with a uniform code, and each later one with the code of a probe that was trained
on all blocks before it:

    L = t_1 log2 C - sum_i log2 p(y of block i + 1 | x, probe of blocks 1..i)

Blocks are joined until they hold two classes, since a probe needs something to tell apart. A label
that a solved probe has not seen costs ``UNSEEN_LOSS``.

A probe that needs few examples, or none of its capacity, sends them cheaply. Compression is the
length of the uniform code divided by L.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from probekit.features import FeatureView
from probekit.metrics import METRICS
from probekit.seeding import numpy_generator
from probekit.selection import Selection
from probekit.train import FitResult, MemberSpec, StreamSpec, fit_group

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
    epochs: int,
    batch_size: int = 16,
    evals: int = 10,
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
        epochs: passes over the blocks that a probe may see.
        batch_size: sentences per step.
        evals: number of points at which dev is scored.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        memory: bytes that rows may take.
    """
    filled = np.flatnonzero(train.lengths)  # a sentence may have lost all its words
    order = filled[numpy_generator(seed, "online code").permutation(len(filled))]
    members = [_judged_by_dev(member) for member in members]
    ends = [end for end in block_ends(len(order)) if _classes(train.take(order[:end])) > 1]
    if not ends:
        ends = [len(order)]
    sizes = [len(train.take(order[: ends[0]]))]
    fitted = []
    for start, stop in itertools.pairwise(ends):
        sent, following = train.take(order[:start]), train.take(order[start:stop])
        stream = StreamSpec(
            train=sent,
            seed=seed,
            epochs=epochs,
            batch_size=batch_size,
            evals=evals,
            members=tuple(members),
        )
        fitted += fit_group(
            [stream],
            dev,
            {_NEXT: following},
            metric=METRICS["perplexity"](),
            device=device,
            memory=memory,
        )
        sizes.append(len(following))
    places = range(len(members))
    return [_code_length([r[place] for r in fitted], sizes, n_classes) for place in places]


def _code_length(results: Sequence[FitResult], sizes: Sequence[int], n_classes: int) -> CodeLength:
    """Return the code length of one member.

    Args:
        results: its probes, of all blocks but the last.
        sizes: labels of each block.
        n_classes: C.
    """
    nats = sizes[0] * math.log(n_classes)
    for result, size in zip(results, sizes[1:], strict=True):
        nats += result.scores[f"{_NEXT}/loss"] * size
    n_rows = sum(sizes)
    return CodeLength(
        bits=nats / math.log(2),
        uniform_bits=n_rows * math.log2(n_classes),
        n_rows=n_rows,
        diverged=any(result.diverged for result in results),
    )


def _judged_by_dev(member: MemberSpec) -> MemberSpec:
    """Return a member whose strength, if it is solved, is chosen by dev: small blocks cannot."""
    return member if member.select is None else replace(member, select=Selection("dev"))


def _classes(view: FeatureView) -> int:
    return len(np.unique(view.targets))


def block_ends(n_examples: int) -> list[int]:
    """Return where each block ends, in examples: each at least one, none twice."""
    return sorted({max(1, round(share * n_examples)) for share in SHARES})
