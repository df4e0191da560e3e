"""The expected layer: where a task's score is gained, after Tenney, Das and Pavlick (2019).

"BERT Rediscovers the Classical NLP Pipeline", section 2.2: probes read a scalar mix of the layers 0
to l, for each l. The differential score Delta(l) = score(l) - score(l - 1) is what layer l adds,
and the expected layer is its mean place, sum_l l Delta(l) / sum_l Delta(l) for l = 1..L.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Counts
from probekit.results.overthinking.depth_curves import CurveReport
from probekit.results.overthinking.depth_predictions import DepthPredictions
from probekit.results.overthinking.estimates import Bootstrap, Estimate

HEAD = "scalar-mix"
"""The head whose probes are cut at each depth."""


@dataclass(frozen=True, kw_only=True)
class ExpectedLayer(CurveReport):
    """Where the score of scalar mixes up to a depth is gained; means over the seeds.

    Attributes:
        metric: the metric.
        depths: ascending.
        scores: score of the mix up to each depth.
        gains: the same less that of the first depth: the cumulative gain, in scores.
        total: the gain of the last depth.
        layer: the expected layer; None where the interval of the total gain holds 0, since a mean
            weighted by differences that add up to nothing has no meaning.
    """

    metric: str
    depths: tuple[int, ...]
    scores: Sequence[float]
    gains: Sequence[Estimate]
    total: Estimate
    layer: Estimate | None


def expected_layer(found: DepthPredictions, bootstrap: Bootstrap) -> ExpectedLayer:
    """Return the expected layer and the cumulative gain of a curve of `HEAD`."""
    depths = np.array(found.depths, np.float64)

    def statistics(counts: Counts) -> Float64[np.ndarray, "samples k"]:
        scores = found.scorer.scale.sign * found.scores(counts)
        # Scores 0.5, 0.7, 0.8 of the depths 0, 1, 2: the differences are 0.2 and 0.1, and the
        # expected layer is (1 * 0.2 + 2 * 0.1) / 0.3 = 1.33.
        differences = np.diff(scores, axis=1)
        gains = scores[:, 1:] - scores[:, :1]
        total = gains[:, -1]
        weighted = differences @ depths[1:]
        mean = np.divide(weighted, total, out=np.full_like(total, np.nan), where=total != 0)
        return np.column_stack([gains, np.nan_to_num(mean)])

    *gains, layer = bootstrap.estimates(found.groups, statistics)
    return ExpectedLayer(
        **found.about,
        metric=found.scorer.name,
        scores=found.scores(np.ones((1, found.n_sentences)))[0].tolist(),
        gains=[Estimate(0.0, 0.0, 0.0, 1.0), *gains],
        total=gains[-1],
        layer=None if gains[-1].holds_zero else layer,
    )
