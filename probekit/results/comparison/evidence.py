"""What the records of some runs of one split say of their scores: over seeds, and over sentences.

The sentences, or whole groups of them, are resampled once for all runs, the same ones for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float64

from probekit.errors import ProbekitError, clause_of
from probekit.metrics import Metric
from probekit.metrics.contract import Counts
from probekit.results.comparison.bootstrap import PerSample, resample
from probekit.results.comparison.crossed import pseudo_values
from probekit.results.comparison.pairing import put_beside
from probekit.results.comparison.resampled_groups import Groups, shared_groups
from probekit.results.comparison.runs import RecordedRun
from probekit.results.record import Record
from probekit.results.summaries.scored import SCORE_OF


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
    groups: Groups


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


@dataclass(frozen=True, eq=False)
class Predictions:
    """What some seeds of one run predicted for the sentences of a split, not yet resampled.

    Attributes:
        scorer: the metric, prepared for the split.
        by_seed: predictions as the metric wants them.
        groups: of the split's sentences.
        name: whose they are, for messages.
    """

    scorer: Metric
    by_seed: Mapping[int, np.ndarray]
    groups: Groups
    name: str = ""


def score_on(record: Record, split: str, metric: str | None = None) -> float | None:
    """Return a record's score on ``dev``, ``test`` or another split, if it has one.

    Args:
        record: whose score.
        split: the split.
        metric: name of the score; None is the metric of the record.
    """
    if metric not in (None, record.metric):
        return record.scores.get(f"{split}/{metric}")
    if split in SCORE_OF:
        found: float | None = getattr(record, SCORE_OF[split])
        return found
    return record.scores.get(f"{split}/{record.metric}")


def gather(
    runs: Sequence[RecordedRun],
    split: str,
    metric: str | None = None,
    *,
    samples: int,
    seed: int = 0,
) -> list[Evidence]:
    """Return what is known of some runs on one split of the same data.

    Args:
        runs: whose predictions can be put side by side with those of the first, if they are kept.
        split: the split.
        metric: how they are scored; None is the metric of the records.
        samples: bootstrap samples.
        seed: of the samples.

    Raises:
        OptionError: too few samples.
        RecordError: the predictions of two runs know other groups of the sentences.
    """
    beside = [_beside(run, runs, split, metric) for run in runs]
    found = [one for one in beside if isinstance(one, Predictions)]
    drawn = iter(over_sentences(found, samples=samples, seed=seed))
    return [
        Evidence(_recorded(run, split, metric), why_not=one)
        if isinstance(one, str)
        else Evidence(_recorded(run, split, metric), next(drawn))
        for run, one in zip(runs, beside, strict=True)
    ]


def _recorded(run: RecordedRun, split: str, metric: str | None) -> dict[int, float]:
    scores = {record.seed: score_on(record, split, metric) for record in run.records}
    return {seed: score for seed, score in scores.items() if score is not None}


def _beside(
    run: RecordedRun, runs: Sequence[RecordedRun], split: str, metric: str | None
) -> Predictions | str:
    """Put the predictions of a run beside those of the first that has any; or say why not."""
    kept = [one for one in runs if all(r.predictions is not None for r in one.records)]
    if not any(run is one for one in kept):
        return "no predictions were kept"
    if len(kept) == 1:
        return "no predictions of another run were kept"
    anchor = kept[1] if run is kept[0] else kept[0]
    first = replace(anchor, records=anchor.records[:1])  # whose sentences are those of all seeds
    try:
        pairing = put_beside(run, first, split, metric)
    except ProbekitError as error:
        return clause_of(error)
    by_seed = dict(zip(run.seeds, pairing.a, strict=True))
    return Predictions(pairing.scorer, by_seed, pairing.groups, run.text)


def over_sentences(
    runs: Sequence[Predictions], *, samples: int, seed: int = 0
) -> list[dict[int, OverSentences]]:
    """Score the same samples of sentences with all seeds of all runs.

    Args:
        runs: on the same sentences.
        samples: bootstrap samples.
        seed: of the samples.

    Returns:
        Of every run, what each seed's predictions say.

    Raises:
        OptionError: too few samples, or sentences.
        RecordError: two runs know other groups of the sentences.
    """
    if not runs:
        return []
    groups = shared_groups((one.name, one.groups) for one in runs)
    resamplers = [one.scorer.resampler(found) for one in runs for found in one.by_seed.values()]

    def score(counts: Counts) -> PerSample:
        return np.stack([resampler(counts) for resampler in resamplers], axis=1)

    values = [pseudo_values(one.scorer, [*one.by_seed.values()], groups) for one in runs]
    columns = iter(resample(groups, score, samples=samples, seed=seed).T)
    return [
        {
            seed: OverSentences(
                one.scorer.score(found)[one.scorer.name], added, next(columns), groups
            )
            for (seed, found), added in zip(one.by_seed.items(), own, strict=True)
        }
        for one, own in zip(runs, values, strict=True)
    ]
