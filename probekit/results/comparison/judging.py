"""Settings judged by all that is known of their scores: over seeds, and over sentences.

The sentences, or whole groups of them, are resampled once for all runs, the same ones for each. The
differences of a family are corrected together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from probekit.errors import ProbekitError, clause_of
from probekit.metrics.contract import Counts
from probekit.results.comparison import resampling
from probekit.results.comparison.pairing import Predictions, put_beside
from probekit.results.comparison.runs import Pair, RecordedRun
from probekit.results.summaries.grouping import Key
from probekit.results.summaries.interval import LEVEL, Drawn, holm, interval, sign_flip_p
from probekit.results.summaries.scored import score_on

SAMPLES_EACH = 80
"""Bootstrap samples per comparison of a family at least, so that p can be half of what Holm asks of
the first."""


@dataclass(frozen=True, eq=False)
class OverSentences:
    """What the predictions of one seed say.

    Attributes:
        score: on the whole split.
        values: what each sentence, or group of them, adds to it (pseudo-values).
        samples: the score on each sample of sentences.
        groups: of the sentences: what was resampled.
    """

    score: float
    values: Float64[np.ndarray, " groups"]
    samples: Float64[np.ndarray, " samples"]
    groups: resampling.Groups

    def __sub__(self, other: "OverSentences") -> "OverSentences":
        """Return the same of the difference of two seeds on the same samples."""
        score, values = self.score - other.score, self.values - other.values
        return replace(self, score=score, values=values, samples=self.samples - other.samples)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of the score of one run.

    Attributes:
        scores: by seed, as recorded.
        predicted: by seed, where predictions were kept and fit those of the other runs.
        why_not: why there are none, as a message; None where there are.
    """

    scores: Mapping[int, float]
    predicted: Mapping[int, OverSentences] = field(default_factory=dict)
    why_not: str | None = None


def over_both(seeds: Sequence[OverSentences]) -> resampling.Crossed:
    """Return the mean score of some seeds with its interval over seeds and sentences together."""
    values = np.stack([seed.values for seed in seeds])
    return resampling.crossed([seed.score for seed in seeds], values, seeds[0].groups.drawn)


def bootstrapped(a: Sequence[OverSentences], b: Sequence[OverSentences]) -> resampling.Estimate:
    """Return the difference of two means over seeds with its interval over sentences alone."""
    mean_a, mean_b = (np.mean([seed.samples for seed in side], axis=0) for side in (a, b))
    value = np.mean([x.score - y.score for x, y in zip(a, b, strict=True)])
    return resampling.estimate(float(value), mean_a - mean_b, a[0].groups)


def gather(
    runs: Sequence[RecordedRun], split: str, metric: str | None, bootstrap: resampling.Bootstrap
) -> list[Evidence]:
    """Return what is known of some runs on one split of the same data.

    Args:
        runs: whose predictions can be put side by side with those of the first, if they are kept.
        split: the split.
        metric: how they are scored; None is the metric of the records.
        bootstrap: how sentences are resampled.

    Raises:
        RecordError: the predictions of two runs know other groups of the sentences.
    """
    beside = [_beside(run, runs, split, metric) for run in runs]
    predicted = [run for run in beside if isinstance(run, Predictions)]
    resampled = iter(over_sentences(predicted, bootstrap))
    known = []
    for run, predictions in zip(runs, beside, strict=True):
        of_seeds = {record.seed: score_on(record, split, metric) for record in run.records}
        scores = {seed: score for seed, score in of_seeds.items() if score is not None}
        if isinstance(predictions, str):
            known.append(Evidence(scores, why_not=predictions))
        else:
            known.append(Evidence(scores, next(resampled)))
    return known


def _beside(
    run: RecordedRun, runs: Sequence[RecordedRun], split: str, metric: str | None
) -> Predictions | str:
    """Put the predictions of a run beside those of the first that has any; or say why not."""
    kept = [run for run in runs if all(r.predictions is not None for r in run.records)]
    if not any(run is member for member in kept):
        return "no predictions were kept"
    if len(kept) == 1:
        return "no predictions of another run were kept"
    anchor = kept[1] if run is kept[0] else kept[0]
    first = replace(anchor, records=anchor.records[:1])  # whose sentences are those of all seeds
    try:
        return put_beside([run, first], split, metric)[0]
    except ProbekitError as error:
        return clause_of(error)


def over_sentences(
    runs: Sequence[Predictions], bootstrap: resampling.Bootstrap
) -> list[dict[int, OverSentences]]:
    """Score the same samples of sentences with all seeds of all runs.

    Args:
        runs: on the same sentences.
        bootstrap: how they are resampled.

    Returns:
        Of every run, what each seed's predictions say.

    Raises:
        RecordError: two runs know other groups of the sentences.
    """
    if not runs:
        return []
    groups = resampling.shared_groups((run.name, run.groups) for run in runs)
    resamplers = [run.scorer.resampler(seed) for run in runs for seed in run.by_seed.values()]

    def score(counts: Counts) -> resampling.PerSample:
        return np.stack([resampler(counts) for resampler in resamplers], axis=1)

    values = [resampling.pseudo_values(run.scorer, [*run.by_seed.values()], groups) for run in runs]
    columns = iter(bootstrap.resample(groups, score).T)
    return [
        {
            seed: OverSentences(
                run.scorer.score(predicted)[run.scorer.name], added, next(columns), groups
            )
            for (seed, predicted), added in zip(run.by_seed.items(), of_seeds, strict=True)
        }
        for run, of_seeds in zip(runs, values, strict=True)
    ]


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


def judge(
    pairs: Mapping[Key, Sequence[Pair]],
    split: str,
    metric: str | None = None,
    bootstrap: resampling.Bootstrap = resampling.Bootstrap(),  # noqa: B008 (frozen)
) -> list[Judged]:
    """Judge every pair, and correct the significance of all of them together.

    Args:
        pairs: by the data that both runs of a pair were scored on; pairs without a shared seed
            that has a score are left out.
        split: the split.
        metric: how they are scored; None is the metric of the records.
        bootstrap: how sentences are resampled; more samples are drawn of a large family.
    """
    least = SAMPLES_EACH * sum(map(len, pairs.values()))
    bootstrap = replace(bootstrap, samples=max(bootstrap.samples, least))
    judged = []
    for together in pairs.values():
        runs = list({id(run): run for pair in together for run in reversed(pair)}.values())
        evidence = gather(runs, split, metric, bootstrap)
        known = dict(zip(map(id, runs), evidence, strict=True))
        judged += [difference(a, b, known[id(a)], known[id(b)], split, metric) for a, b in together]
    return family([comparison for comparison in judged if comparison is not None])


def family(pairs: Sequence[Judged]) -> list[Judged]:
    """Return comparisons with the verdict of each, corrected for their number."""
    p = holm({n: pair.p for n, pair in enumerate(pairs) if pair.p is not None})
    judged = []
    for n, pair in enumerate(pairs):
        way: Literal["higher", "lower"] = "higher" if pair.difference > 0 else "lower"
        verdict = way if n in p and p[n] < LEVEL else None
        judged.append(replace(pair, corrected=p.get(n), verdict=verdict))
    return judged


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
    scores_a, scores_b = ([side.scores[seed] for seed in seeds] for side in (a, b))
    differences = [x - y for x, y in zip(scores_a, scores_b, strict=True)]
    known: dict[str, Any] = {}
    if predicted:
        side_a, side_b = ([side.predicted[seed] for seed in seeds] for side in (a, b))
        both = over_both([x - y for x, y in zip(side_a, side_b, strict=True)])
        p = bootstrapped(side_a, side_b).p
        p = p if both.over == "sentences" else max(p, both.p)
        known = {"low": both.low, "high": both.high, "over": both.over, "drawn": both.drawn, "p": p}
    elif len(set(differences)) > 1:  # one seed, or seeds that are all alike, say nothing
        over = interval(differences)
        p = sign_flip_p(differences)
        known = {"low": over.low, "high": over.high, "over": "seeds", "p": p}
    why_not = None if predicted else a.why_not or b.why_not
    return Judged(
        a=run_a.text,
        b=run_b.text,
        split=split,
        metric=metric or run_a.records[0].metric,
        n_seeds=len(seeds),
        score_a=math.fsum(scores_a) / len(scores_a),
        score_b=math.fsum(scores_b) / len(scores_b),
        difference=math.fsum(differences) / len(differences),
        why_not=why_not,
        **known,
    )
