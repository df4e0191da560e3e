"""What the records of some runs of one split say of their scores: over seeds, and over sentences.

The sentences are resampled once for all runs, the same ones for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float64

from probekit.errors import ProbekitError
from probekit.metrics.contract import Counts, Resampler
from probekit.results.comparison.bootstrap import PerSample, resample
from probekit.results.comparison.crossed import pseudo_values
from probekit.results.comparison.pairing import pair
from probekit.results.comparison.runs import RecordedRun
from probekit.results.record import Record
from probekit.results.summaries.scored import SCORE_OF


@dataclass(frozen=True, eq=False)
class OverSentences:
    """What the predictions of one seed say.

    Attributes:
        score: on the whole split.
        values: what each sentence adds to it (pseudo-values).
        samples: the score on each sample of sentences.
    """

    score: float
    values: Float64[np.ndarray, " sentences"]
    samples: Float64[np.ndarray, " samples"]


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
class _Scored:
    """Predictions of some seeds of one run, put beside those of the others, not yet resampled."""

    seeds: Sequence[int]
    scores: Sequence[float]
    values: Float64[np.ndarray, "seeds sentences"]
    resamplers: Sequence[Resampler]


def score_on(record: Record, split: str) -> float | None:
    """Return a record's score on ``dev``, ``test`` or another split, if it has one."""
    if split in SCORE_OF:
        found: float | None = getattr(record, SCORE_OF[split])
        return found
    return record.scores.get(f"{split}/{record.metric}")


def gather(
    runs: Sequence[RecordedRun], split: str, *, samples: int, seed: int = 0
) -> list[Evidence]:
    """Return what is known of some runs on one split of the same data.

    Args:
        runs: whose predictions can be put side by side with those of the first, if they are kept.
        split: the split.
        samples: bootstrap samples.
        seed: of the samples.

    Raises:
        OptionError: too few samples.
    """
    known = [{r.seed: s for r in run.records if (s := score_on(r, split)) is not None} for run in runs]
    beside = [_beside(run, runs, split) for run in runs]
    drawn = iter(_resampled([one for one in beside if isinstance(one, _Scored)], samples, seed))
    return [
        Evidence(scores, why_not=one)
        if isinstance(one, str)
        else Evidence(scores, dict(zip(one.seeds, next(drawn), strict=True)))
        for scores, one in zip(known, beside, strict=True)
    ]


def _beside(run: RecordedRun, runs: Sequence[RecordedRun], split: str) -> _Scored | str:
    """Put the predictions of a run beside those of the first that has any; or say why not."""
    kept = [one for one in runs if all(r.predictions is not None for r in one.records)]
    if not any(run is one for one in kept):
        return "no predictions were kept"
    if len(kept) == 1:
        return "no predictions of another run were kept"
    anchor = kept[1] if run is kept[0] else kept[0]
    seeds = sorted({*run.seeds}.intersection(anchor.seeds))
    if not seeds:
        return f"no seed is that of {anchor.text}"
    one, other = (
        replace(each, records=tuple(r for r in each.records if r.seed in seeds))
        for each in (run, anchor)
    )
    try:
        pairing = pair(one, other, split)
    except ProbekitError as error:
        return str(error)
    scorer = pairing.scorer
    return _Scored(
        seeds,
        pairing.scores()[0],
        pseudo_values(scorer, pairing.a),
        [scorer.resampler(found) for found in pairing.a],
    )


def _resampled(
    found: Sequence[_Scored], samples: int, seed: int
) -> list[list[OverSentences]]:
    """Score the same samples of sentences with all seeds of all runs."""
    if not found:
        return []
    resamplers = [resampler for one in found for resampler in one.resamplers]

    def score(counts: Counts) -> PerSample:
        return np.stack([resampler(counts) for resampler in resamplers], axis=1)

    drawn = resample(found[0].values.shape[1], score, samples=samples, seed=seed)
    columns = iter(drawn.T)
    return [
        [
            OverSentences(own, values, next(columns))
            for own, values in zip(one.scores, one.values, strict=True)
        ]
        for one in found
    ]
