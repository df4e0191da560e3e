"""Pairs of settings, each judged by all that is known of their difference, and as one family."""

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from probekit.base.numbers.seeding import numpy_generator
from probekit.results.comparison.bootstrap import check_samples, resampled
from probekit.results.comparison.crossed import crossed
from probekit.results.comparison.evidence import Evidence, gather
from probekit.results.comparison.resampled_groups import Drawn, drawn_text
from probekit.results.comparison.runs import RecordedRun
from probekit.results.summaries.grouping import Key
from probekit.results.summaries.interval import CONFIDENCE, interval
from probekit.results.summaries.wording import range_text

LEVEL = 1 - CONFIDENCE
"""The family-wise error: how often a family in which nothing differs has any verdict at all."""

SAMPLES_EACH = 80
"""Bootstrap samples per comparison of a family at least, so that p can be half of what Holm asks of
the first."""

K = TypeVar("K", bound=Hashable)

_EXACT = 14  # seeds of which all signs are tried: 16,384 of them
_DRAWN = 1 << _EXACT


def holm(p: Mapping[K, float]) -> dict[K, float]:
    """Return levels of significance corrected for the size of their family (Holm 1979).

    Those below 5 % are significant together: the chance that any true null is among them is 5 % at
    most, however the comparisons depend on each other.

    Args:
        p: by comparison.
    """
    # three comparisons of 0.04, 0.01, 0.03: ascending 0.01 * 3, 0.03 * 2, 0.04 * 1, of which none
    # may be below the one before it: 0.03, 0.06, 0.06
    ordered = sorted(p, key=lambda key: p[key])
    raised = [p[key] * (len(ordered) - place) for place, key in enumerate(ordered)]
    corrected = dict(zip(ordered, itertools.accumulate(raised, max), strict=True))
    return {key: min(1.0, corrected[key]) for key in p}


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the two-sided significance of paired differences by flipping their signs.

    The share of all ``2^n`` choices of signs whose mean is as far from 0 as the one that was found
    (Fisher 1935, section 21): exact for differences that are symmetric about 0, whatever their
    distribution, and never below `least_p`. Of more than 14 differences 16,384 choices are drawn,
    and the one that was found is added.

    Args:
        differences: one per seed.
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n <= _EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    else:
        drawn = numpy_generator(0, "signs").choice((1.0, -1.0), size=(_DRAWN, n))
        signs = np.vstack([np.ones(n), drawn])
    sums = np.abs(signs @ values)
    # the same sum in another order may end in other bits
    return float((sums >= sums[0] * (1 - 1e-12)).mean())


def least_p(n_seeds: int) -> float:
    """Return the least significance that signs of so many seeds can have: 0.0625 of five."""
    return 2.0 / 2 ** min(n_seeds, _EXACT)


SAMPLES = 10_000

Pair = tuple[RecordedRun, RecordedRun]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is known of the difference of two settings; scores are as in the records.

    Attributes:
        a: name of the first setting.
        b: name of the second one.
        split: the split that both were scored on.
        metric: the metric.
        n_seeds: seeds that both have.
        score_a: mean score of the first over these.
        score_b: mean score of the second one.
        difference: the first minus the second.
        low: lower end of its 95 % interval over what ``over`` says; None where nothing is known.
        high: upper end.
        over: what the interval and p are over: ``seeds and sentences`` where predictions were kept
            and seeds differ, else ``sentences`` or ``seeds``. Where sentences come in groups, these
            stand in their place: ``seeds and documents``.
        drawn: how many sentences or groups these are; None over seeds alone.
        p: two-sided significance. Over sentences it is that of the paired bootstrap; over seeds and
            sentences, and over groups, the larger one of this and that of the interval: a claim
            about a head needs both, and few groups need Student's t at every level; over seeds
            alone that of flipped signs. None where nothing is known: one seed, or seeds that are
            all alike, without predictions.
        corrected: p after Holm (1979), for all comparisons of the family together.
        verdict: ``higher`` or ``lower`` (the first than the second) where that is below 5 %.
        why_not: why it is not over sentences, as a message.
    """

    a: str
    b: str
    split: str
    metric: str
    n_seeds: int
    score_a: float
    score_b: float
    difference: float
    low: float | None = None
    high: float | None = None
    over: str | None = None
    drawn: Drawn | None = None
    p: float | None = None
    corrected: float | None = None
    verdict: Literal["higher", "lower"] | None = None
    why_not: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)


def judge(
    pairs: Mapping[Key, Sequence[Pair]],
    split: str,
    metric: str | None = None,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> list[Judged]:
    """Judge every pair, and correct the significance of all of them together.

    Args:
        pairs: by the data that both runs of a pair were scored on; pairs without a shared seed
            that has a score are left out.
        split: the split.
        metric: how they are scored; None is the metric of the records.
        samples: bootstrap samples; more are drawn of a large family.
        seed: of the samples.

    Raises:
        OptionError: too few samples.
    """
    check_samples(samples)
    size = sum(map(len, pairs.values()))
    found = [
        one
        for together in pairs.values()
        for one in _judged(together, split, metric, max(samples, SAMPLES_EACH * size), seed)
    ]
    return family(found)


def family(found: Sequence[Judged]) -> list[Judged]:
    """Return comparisons with the verdict of each, corrected for their number."""
    corrected = holm({place: one.p for place, one in enumerate(found) if one.p is not None})
    return [_with_verdict(one, corrected.get(place)) for place, one in enumerate(found)]


def _with_verdict(one: Judged, corrected: float | None) -> Judged:
    sure = corrected is not None and corrected < LEVEL
    way: Literal["higher", "lower"] = "higher" if one.difference > 0 else "lower"
    return replace(one, corrected=corrected, verdict=way if sure else None)


def _judged(
    pairs: Sequence[Pair], split: str, metric: str | None, samples: int, seed: int
) -> Iterator[Judged]:
    runs = list({id(run): run for pair in pairs for run in reversed(pair)}.values())
    known = dict(
        zip(map(id, runs), gather(runs, split, metric, samples=samples, seed=seed), strict=True)
    )
    for a, b in pairs:
        found = difference(a, b, known[id(a)], known[id(b)], split, metric)
        if found is not None:
            yield found


def difference(
    run_a: RecordedRun,
    run_b: RecordedRun,
    a: Evidence,
    b: Evidence,
    split: str,
    metric: str | None = None,
) -> Judged | None:
    """Return what is known of one difference, over sentences if both sides have predictions.

    Args:
        run_a: the first run.
        run_b: the second run.
        a: what is known of the first.
        b: what is known of the second.
        split: the split.
        metric: how they were scored; None is the metric of the records.

    Returns:
        The difference, without a verdict; None where no seed of both has a score.
    """
    predicted = sorted(a.predicted.keys() & b.predicted.keys())
    seeds = predicted or sorted(a.scores.keys() & b.scores.keys())
    if not seeds:
        return None
    one, two = ([side.scores[seed] for seed in seeds] for side in (a, b))
    differences = [x - y for x, y in zip(one, two, strict=True)]
    judged = Judged(
        a=run_a.text,
        b=run_b.text,
        split=split,
        metric=metric or run_a.records[0].metric,
        n_seeds=len(seeds),
        score_a=math.fsum(one) / len(one),
        score_b=math.fsum(two) / len(two),
        difference=math.fsum(differences) / len(differences),
    )
    if predicted:
        return replace(judged, **_over_sentences(a, b, predicted))
    why_not = a.why_not or b.why_not
    return replace(judged, **_over_seeds(differences), why_not=why_not)


def _over_sentences(a: Evidence, b: Evidence, seeds: Sequence[int]) -> dict[str, Any]:
    sides = [[side.predicted[seed] for seed in seeds] for side in (a, b)]
    scores = [x.score - y.score for x, y in zip(*sides, strict=True)]
    values = np.stack([x.values - y.values for x, y in zip(*sides, strict=True)])
    one, two = (np.mean([each.samples for each in side], axis=0) for side in sides)
    groups = a.predicted[seeds[0]].groups
    both, sentences = crossed(scores, values, groups.drawn), resampled(one - two, groups)
    p = sentences.p if both.over == "sentences" else max(sentences.p, both.p)
    return {"low": both.low, "high": both.high, "over": both.over, "drawn": both.drawn, "p": p}


def _over_seeds(differences: Sequence[float]) -> dict[str, Any]:
    """Return what seeds say alone: nothing where there is one, or all are alike."""
    if len(set(differences)) < 2:
        return {}
    over = interval(differences)
    p = sign_flip_p(differences)
    return {"low": over.low, "high": over.high, "over": "seeds", "p": p}


def method_text(found: Sequence[Judged], samples: int = SAMPLES) -> list[str]:
    """Return lines that say how some comparisons were made, and what could not be known.

    Args:
        found: a family.
        samples: bootstrap samples that were asked for.
    """
    tested = [one for one in found if one.p is not None]
    samples = max(samples, SAMPLES_EACH * len(found))
    ways = dict.fromkeys(one.over for one in sorted(tested, key=_place))
    by = [_by_text([one for one in tested if one.over == over], samples) for over in ways]
    size = f"all {len(tested)} corrected together (Holm 1979)" * (len(tested) > 1)
    lines = ["; ".join(part for part in (*by, size) if part)]
    lines += _few_seeds(tested)
    unknown = [one for one in found if one.p is None]
    if unknown:
        lines.append(
            f"nothing is known of {_listed(unknown)}: one seed, or seeds that are all alike, and "
            f"not over sentences ({unknown[0].why_not})"
        )
    return [line for line in lines if line]


def _place(one: Judged) -> int:
    """Return the place of a comparison's way in what is said: both, sentences, seeds."""
    return 2 if one.drawn is None else one.over == one.drawn.noun


def _by_text(found: Sequence[Judged], samples: int) -> str:
    """Return how some comparisons over the same were made."""
    drawn = [one.drawn for one in found if one.drawn is not None]
    if not drawn:
        return "p over seeds alone (flipped signs)"
    units = drawn_text(drawn)
    how = f"paired bootstrap, {samples:,} samples"
    if found[0].over != drawn[0].noun:
        more = f"the larger one of a {how}, and of crossed variance components"
        return f"p over seeds and {units} ({more})"
    if drawn[0].noun != "sentences":
        how = f"the larger one of a {how}, and of a jackknife"
    return f"p over {units} ({how}), where there is one seed or none differs"


def _few_seeds(tested: Sequence[Judged]) -> list[str]:
    """Return what keeps those that are over seeds alone from a verdict, if anything does."""
    alone = [one for one in tested if one.over == "seeds"]
    few = sorted({one.n_seeds for one in alone if least_p(one.n_seeds) >= LEVEL})
    if not few:
        return []
    return [
        f"{range_text(few)} seeds alone cannot go below p = {least_p(max(few)):.2g}, so that "
        f"{_listed([one for one in alone if one.n_seeds in few])} can have no verdict; not over "
        f"sentences: {alone[0].why_not}. Train with --predictions, or more seeds"
    ]


_MANY = 4


def _listed(found: Sequence[Judged]) -> str:
    """Return the first settings of some comparisons, or how many there are."""
    names = list(dict.fromkeys(one.a for one in found))
    if len(names) > _MANY:
        return f"{len(found)} comparisons"
    return ", ".join(names)
