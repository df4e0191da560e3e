"""What the probes of every depth predicted of one split, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from probekit.errors import RecordError
from probekit.metrics import Gold
from probekit.metrics.contract import ClassMetric
from probekit.results.comparison.pairing import groups_of, read_alike
from probekit.results.comparison.resampled_groups import Groups
from probekit.results.overthinking.depth_curves import DepthCurve, metric_of_curve
from probekit.results.predictions import Predicted

Right = Bool[np.ndarray, "seeds depths rows"]
Classes = Int64[np.ndarray, "seeds depths rows"]


@dataclass(frozen=True, kw_only=True, eq=False)
class DepthPredictions:
    """The predictions of one curve for one split.

    Attributes:
        curve: whose they are.
        split: the split.
        depths: ascending; the last is that of the whole model.
        seeds: ascending.
        scorer: the metric, prepared with the gold labels.
        groups: of the split's sentences: what intervals resample.
        predicted: class of each row, an index into ``scorer.gold.names``.
        found: what the side files hold, by depth and seed.
    """

    curve: DepthCurve
    split: str
    depths: tuple[int, ...]
    seeds: tuple[int, ...]
    scorer: ClassMetric
    groups: Groups
    predicted: Classes
    found: Sequence[Sequence[Predicted]] = field(repr=False)

    @property
    def about(self) -> dict[str, Any]:
        """What a `CurveReport` begins with, by field, and the depths."""
        record = self.curve.records[0]
        whose = {name: getattr(record, name) for name in ("model", "task", "label")}
        where = {"split": self.split, "drawn": self.groups.drawn, "depths": self.depths}
        return {"name": self.curve.name, **whose, **where}

    @property
    def n_sentences(self) -> int:
        """Sentences of the split."""
        return self.groups.n_sentences

    @property
    def unit(self) -> str:
        """What has a prediction: words, or whole texts."""
        return "words" if len(self.scorer.gold.ids) != self.n_sentences else "texts"

    @cached_property
    def lengths(self) -> Int64[np.ndarray, " sentences"]:
        """Rows of each sentence."""
        return np.diff(self.scorer.gold.offsets)

    @property
    def right(self) -> Right:
        """Whether each prediction is the gold label."""
        return np.asarray(self.predicted == self.scorer.gold.ids)

    @cached_property
    def parts(self) -> Float64[np.ndarray, "seeds depths sentences parts"]:
        """What each sentence adds to the sums that the metric's score follows from."""
        each = [[self.scorer.parts(rows) for rows in seed] for seed in self.predicted]
        return np.asarray(each, dtype=np.float64)

    def scores(
        self, counts: Float64[np.ndarray, "samples sentences"]
    ) -> Float64[np.ndarray, "samples depths"]:
        """Return the score of every depth on some samples of sentences, mean over the seeds."""
        found = [[self.scorer.combine(counts @ own) for own in seed] for seed in self.parts]
        return np.asarray(np.mean(found, axis=0)).T


def read_depths(curve: DepthCurve, split: str) -> DepthPredictions:
    """Read the side files of a curve, checked to be about the same sentences and labels.

    Raises:
        RecordError: the labels are no classes; or predictions are missing, or are of another
            split, other sentences or labels, or do not give the scores of their records.
        MissingFileError: a side file does not exist.
    """
    metric = metric_of_curve(curve.name, curve.records[0])
    runs = [*curve.probes.values()]
    probes = read_alike(runs, split)
    reference = probes[0][0]
    assert reference.gold is not None, "classes have a gold side"
    return DepthPredictions(
        curve=curve,
        split=split,
        depths=curve.depths,
        seeds=tuple(runs[0].seeds),
        scorer=metric(Gold(reference.gold, reference.offsets, reference.names)),
        groups=groups_of(runs, probes),
        predicted=np.stack([[one.predicted for one in group] for group in probes], axis=1),
        found=probes,
    )


def probabilities_of(
    predictions: DepthPredictions, seed: int
) -> list[tuple[Float[np.ndarray, "rows kept"], Int64[np.ndarray, "rows kept"] | None]]:
    """Return the probabilities that each depth gave, and which classes they are of.

    Args:
        predictions: of a curve.
        seed: the place of a seed.

    Returns:
        By depth, the probabilities that were kept and the classes' numbers in the side file, or
        None where all were kept.

    Raises:
        RecordError: a side file holds none.
    """
    found = []
    for run, group in zip(predictions.curve.probes.values(), predictions.found, strict=True):
        one, record = group[seed], run.records[seed]
        if one.probabilities is None:
            raise RecordError(
                f"{run.text}, seed {record.seed}: {record.predictions} holds predictions without "
                "probabilities (of an earlier version, or of a decoder that has none). Delete the "
                "file and train again with --predictions, with a decoder that gives them, such as "
                "linear."
            )
        found.append((one.probabilities.astype(np.float32), one.kept))
    return found
