"""The probes of one setting at every depth, and what they predicted of one split, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.metrics import Gold
from probekit.metrics.contract import ClassMetric
from probekit.results.comparison.pairing import groups_of, read_alike, recorded_metric
from probekit.results.comparison.resampling import Groups
from probekit.results.comparison.runs import RecordedRun
from probekit.results.predictions import Predicted
from probekit.results.record import Record
from probekit.results.summaries.grouping import check_same_seeds, check_seeds, grouped, series
from probekit.results.summaries.interval import Drawn
from probekit.results.summaries.scored import SCORE_OF, reported_split
from probekit.results.summaries.wording import model_text, seeds_text

Right = Bool[np.ndarray, "seeds depths rows"]
Classes = Int64[np.ndarray, "seeds depths rows"]

_TASK = ("model", "task", "label")

_AGAIN = "run `probekit depth MODEL TASK` with the options of these runs"


@dataclass(frozen=True, kw_only=True)
class DepthCurve:
    """The records of a head at every depth, which differ in depth and seed alone.

    Attributes:
        name: the head, and what else tells it from the other curves of its task.
        probes: runs of each depth, ascending; a record per seed.
    """

    name: str
    probes: Mapping[int, RecordedRun]

    @property
    def depths(self) -> tuple[int, ...]:
        """All depths, ascending; the last is that of the whole model."""
        return tuple(self.probes)

    @property
    def records(self) -> list[Record]:
        """The probes' records."""
        return [record for run in self.probes.values() for record in run.records]


@dataclass(frozen=True, kw_only=True)
class CurveReport:
    """What is reported of one curve begins with whose it is.

    Attributes:
        name: of the curve: the head, and what else tells it from the others.
        model: name of the backbone.
        task: name of the task.
        label: label column.
        split: the split that is reported.
        drawn: what of the split intervals are over.
        depths: ascending; the last is that of the whole model.
        n_sentences: sentences of the split.
        n_seeds: seeds.
    """

    name: str
    model: str
    task: str
    label: str
    split: str
    drawn: Drawn
    depths: tuple[int, ...]
    n_sentences: int
    n_seeds: int

    @property
    def title(self) -> str:
        """What was measured on how much, as the first line of a report."""
        what = ", ".join([model_text(self.model), self.task, self.label, self.split])
        return (
            f"{self.name} ({what}): {self.n_sentences:,} sentences, {seeds_text([self.n_seeds])}, "
            f"depths {self.depths[0]} to {self.depths[-1]}"
        )

    @property
    def intervals_text(self) -> str:
        """What its intervals are over."""
        return f"in brackets: 95 % bootstrap intervals over {self.drawn.text}"


def depth_curves(records: Sequence[Record]) -> list[DepthCurve]:
    """Return every setting of some records that was probed at several depths.

    Args:
        records: any; those without a depth, and trials, are left out.

    Raises:
        RecordError: there is no probe of a depth, or of one depth alone, or none of the last
            depth; or depths have other seeds. The message says what to do.
    """
    probes = [record for record in records if record.depth is not None and not record.trial]
    if not probes:
        raise RecordError(
            "no record is of a probe at a truncated depth; run `probekit depth MODEL TASK` first."
        )
    tasks = grouped(probes, _TASK)
    curves = []
    for of, task in tasks.items():
        said = f" ({', '.join(map(str, of))})" * (len(tasks) > 1)
        for name, members in series(task, given=["depth"]).items():
            runs = {}
            for (depth,), group in grouped(members, ["depth"]).items():
                text = f"{name}{said}, depth {depth}"
                check_seeds(group, text)
                runs[depth] = RecordedRun.of(text, group)
            _check_depths(name + said, runs)
            curves.append(DepthCurve(name=name, probes=runs))
    return curves


def _check_depths(name: str, by_depth: Mapping[int, RecordedRun]) -> None:
    """Refuse a curve of one depth, one without the last depth, and one of uneven seeds."""
    last = max(by_depth)
    if len(by_depth) < 2:
        raise RecordError(
            f"{name}: all probes have depth {last}, and a comparison needs several depths; "
            f"{_AGAIN}."
        )
    blocks = by_depth[last].records[0].seen.get("blocks", last)
    if last != blocks:
        raise RecordError(
            f"{name}: the last depth, {blocks}, is missing (the deepest probe is of {last}); "
            f"{_AGAIN}, and with --layers that hold it."
        )
    named = [(run.text, run.records) for run in by_depth.values()]
    check_same_seeds(named, f"every depth needs the same; {_AGAIN}")


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
        """What a `CurveReport` says of it, by field."""
        record = self.curve.records[0]
        return {
            "name": self.curve.name,
            **{name: getattr(record, name) for name in _TASK},
            "split": self.split,
            "drawn": self.groups.drawn,
            "depths": self.depths,
            "n_sentences": self.n_sentences,
            "n_seeds": len(self.seeds),
        }

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
        scores = [[self.scorer.combine(counts @ depth) for depth in seed] for seed in self.parts]
        return np.asarray(np.mean(scores, axis=0)).T


def read_depths(curve: DepthCurve, split: str) -> DepthPredictions:
    """Read the side files of a curve, checked to be about the same sentences and labels.

    Raises:
        RecordError: the labels are no classes; or predictions are missing, or are of another
            split, other sentences or labels, or do not give the scores of their records.
        MissingFileError: a side file does not exist.
    """
    record = curve.records[0]
    metric = recorded_metric(record)
    if not issubclass(metric, ClassMetric):
        raise RecordError(
            f"{curve.name} ({record.model}, {record.task}, {record.label}): this needs "
            f"predictions of classes, and {metric.name} scores {metric.consumes}; choose a task "
            "with classes, from a records file with --where task=TASK."
        )
    runs = [*curve.probes.values()]
    probes = read_alike(runs, split, texts=False)
    reference = probes[0][0]
    if reference.content != "classes":
        raise RecordError(
            f"{curve.name}: this needs one class per text, and these are sets of labels; "
            "`probekit plot depth` shows their scores by depth."
        )
    assert reference.gold is not None, "classes have a gold side"
    return DepthPredictions(
        curve=curve,
        split=split,
        depths=curve.depths,
        seeds=tuple(runs[0].seeds),
        scorer=metric(Gold(reference.gold, reference.offsets, reference.names)),
        groups=groups_of(runs, probes),
        predicted=np.stack([[seed.predicted for seed in group] for group in probes], axis=1),
        found=probes,
    )


def probabilities_of(
    probes: DepthPredictions, seed: int
) -> list[tuple[Float[np.ndarray, "rows kept"], Int64[np.ndarray, "rows kept"] | None]]:
    """Return the probabilities that each depth gave, and which classes they are of.

    Args:
        probes: of a curve.
        seed: the place of a seed.

    Returns:
        By depth, the probabilities that were kept and the classes' numbers in the side file, or
        None where all were kept.

    Raises:
        RecordError: a side file holds none.
    """
    kept = []
    for run, group in zip(probes.curve.probes.values(), probes.found, strict=True):
        predicted, record = group[seed], run.records[seed]
        if predicted.probabilities is None:
            raise RecordError(
                f"{run.text}, seed {record.seed}: {record.predictions} holds predictions without "
                "probabilities (of an earlier version, or of a decoder that has none). Delete the "
                "file and train again with --predictions, with a decoder that gives them, such as "
                "linear."
            )
        kept.append((predicted.probabilities.astype(np.float32), predicted.kept))
    return kept


def read_reported(
    curve: DepthCurve, split: str | None
) -> tuple[DepthPredictions, DepthPredictions | None]:
    """Return the predictions for the split that is reported, and for dev where that chooses."""
    if split is not None:
        choose("split", split, SCORE_OF)
    reported = read_depths(curve, split or reported_split(curve.records))
    if reported.split == "dev":
        return reported, None
    return reported, read_depths(curve, "dev")
