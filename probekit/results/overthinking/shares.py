"""Overthinking: the share of rows that an earlier depth had right, after Kaya and Dumitras (2019).

"Shallow-Deep Networks: Understanding and Mitigating Network Overthinking", section 4: a network
overthinks *wastefully* where an internal classifier was right as well, and *destructively* where
one was right and the last is wrong; the *cumulative* accuracy counts what any of them has right.

Where the last depth is unsure, another draw from its own probabilities would be right as well, and
of many depths that disagree one nearly always is. So each is held against what the last depth
expects of it (`expected.Expected`): whatever the earlier depths name, given what the last one says
of the row, is right as often as the last one's calibrated probabilities say. What exceeds that was
known earlier and lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Counts, per_example
from probekit.results.comparison.judging import LEVEL, holm
from probekit.results.overthinking.depth_predictions import DepthPredictions
from probekit.results.overthinking.estimates import Bootstrap, Estimate, Statistics
from probekit.results.overthinking.expected import expected_of

PerRow = Float64[np.ndarray, "rows k"]
"""Numbers of each row, means over the seeds."""

NAMES = ("wasteful", "destructive", "cumulative", "layers wasted")


@dataclass(frozen=True, kw_only=True)
class Share:
    """One kind of overthinking, as shares of all rows, means over the seeds.

    Attributes:
        name: of `NAMES`. The unit of ``layers wasted`` are layers: the last depth less the earliest
            that is right, mean over the wasteful rows.
        share: the share.
        expected: of the destructive share what the last depth's own probabilities give; else None.
        excess: ``share`` less ``expected``.
    """

    name: str
    share: Estimate
    expected: Estimate | None = None
    excess: Estimate | None = None


@dataclass(frozen=True, kw_only=True)
class EarlierDepth:
    """What an earlier depth has right of the rows that the last one has wrong, as shares of these.

    Attributes:
        depth: the depth.
        right: rows that it has right.
        expected: what the last depth's calibrated probabilities give to the classes that it names.
        excess: ``right`` less ``expected``: what it knows there and the last depth does not.
        corrected: significance of the excess after Holm's correction for all earlier depths.
    """

    depth: int
    right: Estimate
    expected: Estimate
    excess: Estimate
    corrected: float

    @property
    def knows(self) -> bool:
        """Whether it surely knows what the last depth has lost."""
        return self.excess.value > 0 and self.corrected < LEVEL


@dataclass(frozen=True, kw_only=True)
class SharesByDepth:
    """What each depth has right.

    Attributes:
        depths: ascending; the last is that of the whole model.
        right: share of all rows that the probe of a depth has right.
        earlier: of each earlier depth, what it has right where the last is wrong.
        gold: probability of the gold class there, by the last depth: what one draw from it gives.
    """

    depths: tuple[int, ...]
    right: Sequence[Estimate]
    earlier: tuple[EarlierDepth, ...]
    gold: Estimate


def shares(found: DepthPredictions, bootstrap: Bootstrap) -> list[Share]:
    """Return the shares of `NAMES`, the destructive one beside what is expected of it."""
    right, expected = found.right, expected_of(found)
    last, some = right[:, -1], right[:, :-1].any(1)
    # Depths 0, 1, 2 and 3, of which 1 is right: the earliest has place 1, and 3 - 1 = 2 layers
    # come after it.
    depths = np.array(found.depths)
    after = (depths[-1] - depths[right[:, :-1].argmax(1)]) * some
    by_chance = expected.of_any
    kinds = [last & some, ~last & some, last | some, last * after, by_chance]
    sums = per_example(_means(kinds), found.scorer.gold.offsets)
    sizes = np.diff(found.scorer.gold.offsets).astype(np.float64)

    def statistics(counts: Counts) -> Float64[np.ndarray, "samples k"]:
        wasteful, destructive, cumulative, wasted, chance = (counts @ sums).T
        parts = [wasteful, destructive, cumulative, chance, destructive - chance]
        of_rows = _part(np.stack(parts, 1), (counts @ sizes)[:, None])
        return np.column_stack([of_rows, _part(wasted, wasteful)])

    found_all = bootstrap.estimates(found.groups, statistics)
    *three, chance, excess, wasted = found_all
    return [
        Share(name=NAMES[0], share=three[0]),
        Share(name=NAMES[1], share=three[1], expected=chance, excess=excess),
        Share(name=NAMES[2], share=three[2]),
        Share(name=NAMES[3], share=wasted),
    ]


def shares_by_depth(found: DepthPredictions, bootstrap: Bootstrap) -> SharesByDepth:
    """Return what each depth has right, and the earlier ones where the last is wrong."""
    right, expected = found.right, expected_of(found)
    wrong, earlier = ~right[:, -1:], len(found.depths) - 1
    per_row = _means([*right.swapaxes(0, 1)])
    estimates = bootstrap.estimates(found.groups, mean_of_rows(found, per_row))
    repaired = (right[:, :-1] & wrong).swapaxes(0, 1)
    columns = [
        *repaired,
        *expected.of_each.swapaxes(0, 1),
        *(repaired - expected.of_each.swapaxes(0, 1)),
        expected.gold * wrong[:, 0],
    ]
    where = bootstrap.estimates(
        found.groups, mean_of_rows(found, _means(columns), _means([wrong[:, 0]])[:, 0])
    )
    each = [where[n * earlier : (n + 1) * earlier] for n in range(3)]
    corrected = holm({n: one.p for n, one in enumerate(each[2])})
    return SharesByDepth(
        depths=found.depths,
        right=estimates,
        earlier=tuple(
            EarlierDepth(depth=depth, right=a, expected=b, excess=c, corrected=corrected[n])
            for n, (depth, a, b, c) in enumerate(zip(found.depths[:-1], *each, strict=True))
        ),
        gold=where[-1],
    )


def _means(kinds: Sequence[np.ndarray]) -> PerRow:
    """Return numbers of each seed and row as means over the seeds, side by side."""
    return np.stack([np.asarray(kind, np.float64).mean(0) for kind in kinds], axis=1)


def mean_of_rows(
    found: DepthPredictions, rows: PerRow, among: Float64[np.ndarray, " rows"] | None = None
) -> Statistics:
    """Return the statistics that are means of numbers of each row.

    Args:
        found: the predictions.
        rows: the numbers.
        among: how much each row counts; None counts all alike.
    """
    offsets = found.scorer.gold.offsets
    counted = np.ones(len(rows)) if among is None else among
    values, sizes = per_example(rows, offsets), per_example(counted[:, None], offsets)
    return lambda counts: _part(counts @ values, counts @ sizes)


def _part(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return ``above / below``, 0 where that is 0 / 0."""
    whole = np.broadcast_to(below, above.shape)
    return np.divide(above, whole, out=np.zeros_like(above), where=whole > 0)
