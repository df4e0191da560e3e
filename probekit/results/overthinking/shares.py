"""Overthinking: the share of rows that an earlier depth had right, after Kaya and Dumitras (2019).

"Shallow-Deep Networks: Understanding and Mitigating Network Overthinking", section 4: a network
overthinks *wastefully* where an internal classifier was right as well, and *destructively* where
one was right and the last is wrong; the *cumulative* accuracy counts what any of them has right.

Where the last depth is unsure, another draw from its own probabilities would be right as well, and
of many depths that disagree one nearly always is. So each is held against what the last depth
expects of it (`Expected`): whatever the earlier depths name, given what the last one says
of the row, is right as often as the last one's calibrated probabilities say. What exceeds that was
known earlier and lost.

Null: an earlier depth knows nothing of a row that the last one does not. Given what the last depth
says of the row, gold is then a draw from its probabilities, whatever the earlier depths name and
however they depend on one another: a class that they name is gold with the probability that the
last depth gives it. That holds where these probabilities are right, and a probe may be more or
less sure than it should be. So the chance that the last prediction is right is fitted to its
confidence by isotonic regression (Zadrozny and Elkan 2002), and the other classes share the rest by
their probabilities to the power that makes gold most likely where the last depth is wrong, which is
temperature scaling (Guo et al. 2017) of these classes alone. Both are fitted to the reported rows
themselves. Sums over all rows then are right by construction, which makes a test of some of them
conservative (``tests/results/overthinking/test_null.py`` simulates it).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Counts, per_example
from probekit.results.comparison.resampling import Bootstrap, Estimate, Statistics
from probekit.results.overthinking.depth_predictions import DepthPredictions, probabilities_of
from probekit.results.summaries.interval import LEVEL, holm

PerRow = Float64[np.ndarray, "rows k"]
"""Numbers of each row, means over the seeds."""

NAMES = ("wasteful", "destructive", "cumulative", "layers wasted")

_TINY = 1e-12
_LEAST = 2.0**-25  # half of what float16 tells from 0
_POWERS = (0.1, 10.0)


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


def shares(probes: DepthPredictions, bootstrap: Bootstrap) -> list[Share]:
    """Return the shares of `NAMES`, the destructive one beside what is expected of it."""
    right, expected = probes.right, expected_of(probes)
    last, some = right[:, -1], right[:, :-1].any(1)
    # Depths 0, 1, 2 and 3, of which 1 is right: the earliest has place 1, and 3 - 1 = 2 layers
    # come after it.
    depths = np.array(probes.depths)
    after = (depths[-1] - depths[right[:, :-1].argmax(1)]) * some
    by_chance = expected.of_any
    kinds = [last & some, ~last & some, last | some, last * after, by_chance]
    sums = per_example(_means(kinds), probes.scorer.gold.offsets)
    sizes = np.diff(probes.scorer.gold.offsets).astype(np.float64)

    def statistics(counts: Counts) -> Float64[np.ndarray, "samples k"]:
        wasteful, destructive, cumulative, wasted, chance = (counts @ sums).T
        parts = [wasteful, destructive, cumulative, chance, destructive - chance]
        of_rows = _part(np.stack(parts, 1), (counts @ sizes)[:, None])
        return np.column_stack([of_rows, _part(wasted, wasteful)])

    *three, chance, excess, wasted = bootstrap.estimates(probes.groups, statistics)
    return [
        Share(name=NAMES[0], share=three[0]),
        Share(name=NAMES[1], share=three[1], expected=chance, excess=excess),
        Share(name=NAMES[2], share=three[2]),
        Share(name=NAMES[3], share=wasted),
    ]


def shares_by_depth(probes: DepthPredictions, bootstrap: Bootstrap) -> SharesByDepth:
    """Return what each depth has right, and the earlier ones where the last is wrong."""
    right, expected = probes.right, expected_of(probes)
    wrong, earlier = ~right[:, -1:], len(probes.depths) - 1
    per_row = _means([*right.swapaxes(0, 1)])
    estimates = bootstrap.estimates(probes.groups, mean_of_rows(probes, per_row))
    repaired = (right[:, :-1] & wrong).swapaxes(0, 1)
    columns = [
        *repaired,
        *expected.of_each.swapaxes(0, 1),
        *(repaired - expected.of_each.swapaxes(0, 1)),
        expected.gold * wrong[:, 0],
    ]
    where = bootstrap.estimates(
        probes.groups, mean_of_rows(probes, _means(columns), _means([wrong[:, 0]])[:, 0])
    )
    each = [where[n * earlier : (n + 1) * earlier] for n in range(3)]
    corrected = holm({n: excess.p for n, excess in enumerate(each[2])})
    return SharesByDepth(
        depths=probes.depths,
        right=estimates,
        earlier=tuple(
            EarlierDepth(depth=depth, right=a, expected=b, excess=c, corrected=corrected[n])
            for n, (depth, a, b, c) in enumerate(zip(probes.depths[:-1], *each, strict=True))
        ),
        gold=where[-1],
    )


def _means(kinds: Sequence[np.ndarray]) -> PerRow:
    """Return numbers of each seed and row as means over the seeds, side by side."""
    return np.stack([np.asarray(kind, np.float64).mean(0) for kind in kinds], axis=1)


def mean_of_rows(
    probes: DepthPredictions, rows: PerRow, among: Float64[np.ndarray, " rows"] | None = None
) -> Statistics:
    """Return the statistics that are means of numbers of each row.

    Args:
        probes: of a curve.
        rows: the numbers.
        among: how much each row counts; None counts all alike.
    """
    offsets = probes.scorer.gold.offsets
    counted = np.ones(len(rows)) if among is None else among
    values, sizes = per_example(rows, offsets), per_example(counted[:, None], offsets)
    return lambda counts: _part(counts @ values, counts @ sizes)


def _part(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return ``above / below``, 0 where that is 0 / 0."""
    whole = np.broadcast_to(below, above.shape)
    return np.divide(above, whole, out=np.zeros_like(above), where=whole > 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """Probabilities by the last depth, seed by seed.

    Attributes:
        of_each: that an earlier depth is right and the last one wrong.
        of_any: that any earlier depth is right and the last one wrong.
        gold: that the gold class is.
    """

    of_each: Float64[np.ndarray, "seeds earlier rows"]
    of_any: Float64[np.ndarray, "seeds rows"]
    gold: Float64[np.ndarray, "seeds rows"]


def expected_of(probes: DepthPredictions) -> Expected:
    """Return what the last depth expects.

    Raises:
        RecordError: its predictions were kept without probabilities.
    """
    each, some, gold = [], [], []
    for seed, predicted in enumerate(probes.predicted):
        last = _Calibrated(probes, seed)
        of_earlier = np.stack([last.of(names) for names in predicted[:-1]]) * (
            predicted[:-1] != last.said
        )
        # What a depth names counts once: depths that name A, B and A say no more than A and B.
        new = np.stack([(names != predicted[:n]).all(0) for n, names in enumerate(predicted[:-1])])
        each.append(of_earlier)
        some.append((of_earlier * new).sum(0))
        gold.append(last.of(probes.scorer.gold.ids))
    return Expected(of_each=np.stack(each), of_any=np.stack(some), gold=np.stack(gold))


class _Calibrated:
    """The last depth's probabilities of one seed, calibrated.

    Attributes:
        said: class that it predicts of each row.
    """

    def __init__(self, probes: DepthPredictions, seed: int) -> None:
        from sklearn.isotonic import IsotonicRegression  # slow to import

        self.said = probes.predicted[seed, -1]
        held = probes.found[-1][seed]
        values, self._kept = probabilities_of(probes, seed)[-1]
        self._values = values.astype(np.float64)
        n_classes = len(held.names) if self._kept is not None else values.shape[1]
        self._unkept = max(n_classes - values.shape[1], 1)
        self._left = np.clip(1 - self._values.sum(1), 0, None) * (self._kept is not None)
        self._sure = self._raw(self.said)
        # The sum of all others tells 0.9999 from 0.99999, which float16 does not.
        rest = np.maximum(self._values.sum(1) + self._left - self._sure, _TINY)
        gold = probes.scorer.gold.ids
        right = self.said == gold
        fitted = IsotonicRegression(y_min=0, y_max=1, increasing=False)
        self._right = fitted.fit_transform(rest, right.astype(np.float64))
        by_gold = self._raw(gold)
        wrong = np.flatnonzero(~right & (by_gold > 0))
        fits = n_classes > 2 and len(wrong) > 0
        self._power = self._likeliest(by_gold[wrong], wrong) if fits else 1.0
        self._others = self._sum_of_others(self._power)

    def of(self, names: np.ndarray) -> Float64[np.ndarray, " rows"]:
        """Return the probability of a class of each row."""
        shares = np.minimum(self._powered(self._raw(names), self._power) / self._others, 1)
        return np.where(names == self.said, self._right, shares * (1 - self._right))

    def _likeliest(self, by_gold: np.ndarray, wrong: np.ndarray) -> float:
        """Return the power under which the gold classes of wrong rows are most likely.

        Args:
            by_gold: probability of the gold class as it was kept, of each of these rows.
            wrong: which rows.
        """
        from scipy.optimize import minimize_scalar  # slow to import

        log_gold = np.log(np.maximum(by_gold, _LEAST))

        def loss(log_power: float) -> float:
            power = np.exp(log_power)
            return float((np.log(self._sum_of_others(power, wrong)) - power * log_gold).sum())

        return float(np.exp(minimize_scalar(loss, bounds=np.log(_POWERS), method="bounded").x))

    def _sum_of_others(
        self, power: float, rows: np.ndarray | slice = slice(None)
    ) -> Float64[np.ndarray, " rows"]:
        """Return the sum of powers over all classes that are not the last prediction."""
        every = self._powered(self._values[rows], power).sum(1)
        if self._kept is not None:
            every += self._unkept * self._powered(self._left[rows] / self._unkept, power)
        return np.maximum(every - self._powered(self._sure[rows], power), _LEAST**power)

    @staticmethod
    def _powered(values: np.ndarray, power: float) -> np.ndarray:
        return np.where(values > 0, np.maximum(values, _LEAST) ** power, 0.0)

    def _raw(self, names: np.ndarray) -> Float64[np.ndarray, " rows"]:
        """Return the probability as it was kept; of a class that was not, its part of the rest."""
        rows = np.arange(len(names))
        if self._kept is None:
            known = names < self._values.shape[1]  # gold may be a class that has no logit
            values = self._values[rows, np.where(known, names, 0)]
            return np.where(known, values, 0.0)
        match = self._kept == names[:, None]
        values = (self._values * match).sum(1)
        return np.where(match.any(1), values, self._left / self._unkept)
