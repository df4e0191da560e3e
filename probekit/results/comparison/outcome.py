"""What a comparison of two runs found."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from probekit.results.summaries.interval import Interval


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a comparison found; scores are as in the records (not percent), means over the seeds.

    Attributes:
        a: name of the first run: what tells it from the second.
        b: name of the second run.
        metric: the metric.
        split: the split that both were scored on.
        n_sentences: its sentences.
        n_seeds: seeds of each run.
        score_a: score of the first run.
        score_b: score of the second run.
        difference: the first minus the second.
        low: lower end of its 95 % bootstrap interval over sentences; the seeds stay as they are.
        high: upper end.
        p: two-sided achieved significance level over sentences.
        over_seeds: the same difference with its interval over paired seeds (Student's t).
        samples: bootstrap samples.
        seed: seed of the samples.
        differing: options besides head and layers in which the runs differ, each with the value of
            either run.
    """

    a: str
    b: str
    metric: str
    split: str
    n_sentences: int
    n_seeds: int
    score_a: float
    score_b: float
    difference: float
    low: float
    high: float
    p: float
    over_seeds: Interval
    samples: int
    seed: int
    differing: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain JSON values."""
        return asdict(self)
