"""The difference of two runs on one split, and the depths that noise cannot tell apart."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probekit.errors import ProbekitError
from probekit.metrics import scale_of
from probekit.results.comparison import judging
from probekit.results.comparison.pairing import put_beside
from probekit.results.comparison.resampling import SAMPLES, Bootstrap, Crossed, estimate
from probekit.results.comparison.runs import RecordedRun, differing, run_names, under_one_name
from probekit.results.record import Record
from probekit.results.summaries.grouping import check_same_seeds, grouped, series
from probekit.results.summaries.interval import (
    Drawn,
    Interval,
    drawn_text,
    interval,
    student_p,
    undecided,
)
from probekit.results.summaries.scored import reported_split
from probekit.results.summaries.typeset import Cell, Column, Table, score_column
from probekit.results.summaries.wording import metric_text, neighbours, numbers_text, value_text

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a comparison found; scores are as in the records (not percent), means over the seeds.

    Attributes:
        a: name of the first run: what tells it from the second.
        b: name of the second run.
        metric: the metric.
        split: the split that both were scored on.
        n_sentences: its sentences; ``over_both.drawn`` says what of them is resampled.
        n_seeds: seeds of each run.
        score_a: score of the first run.
        score_b: score of the second run.
        difference: the first minus the second.
        low: lower end of its 95 % bootstrap interval over sentences, or whole groups of them; the
            seeds stay as they are.
        high: upper end.
        p: two-sided achieved significance level over these.
        over_seeds: the same difference with its interval over paired seeds (Student's t).
        over_both: the same difference with its interval over seeds and sentences together.
        over_both_a: score of the first run with its interval over both.
        over_both_b: score of the second run.
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
    over_both: Crossed
    over_both_a: Crossed
    over_both_b: Crossed
    samples: int
    seed: int
    differing: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """Return for a notebook what `comparison_table` says in a terminal."""
        return comparison_table(self)._repr_html_()


def compare(
    a: RecordedRun,
    b: RecordedRun,
    *,
    split: str | None = None,
    metric: str | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare two runs by what they predicted for the same sentences: a paired bootstrap.

    Each sample of sentences is scored with every seed of both runs; the mean over seeds of the
    first minus that of the second is the difference that the interval is about.

    Args:
        a: the first run.
        b: the second run; of the same seeds, or both of one seed.
        split: ``test``, ``dev``, or another that was predicted (``dev-mm`` of MNLI); unset it is
            test where both have a score there, else dev.
        metric: a name of ``METRICS``, such as ``loss``, ``ece`` or ``brier``; None is the metric of
            the runs' records.
        samples: bootstrap samples.
        seed: of the samples.

    Raises:
        OptionError: both are the same run, or too few samples.
        MissingFileError: a side file of predictions does not exist.
        RecordError: the runs cannot be paired, or predicted no such split; the message says why.
    """
    a, b = under_one_name(a, b)
    if len(a.seeds) + len(b.seeds) > 2:
        named = [(run.text, run.records) for run in (a, b)]
        check_same_seeds(named, "seeds are compared in pairs")
    split = split or reported_split([*a.records, *b.records])
    bootstrap = Bootstrap(samples=samples, seed=seed)
    beside = put_beside([a, b], split, metric)
    side_a, side_b = ([*by_seed.values()] for by_seed in judging.over_sentences(beside, bootstrap))
    apart = [x - y for x, y in zip(side_a, side_b, strict=True)]
    over_seeds, sentences = interval(x.score for x in apart), judging.bootstrapped(side_a, side_b)
    name_a, name_b = run_names(a, b)
    return Comparison(
        a=name_a,
        b=name_b,
        metric=beside[0].scorer.name,
        split=split,
        n_sentences=beside[0].groups.n_sentences,
        n_seeds=len(apart),
        score_a=interval(x.score for x in side_a).mean,
        score_b=interval(x.score for x in side_b).mean,
        difference=over_seeds.mean,
        low=sentences.low,
        high=sentences.high,
        p=sentences.p,
        over_seeds=over_seeds,
        over_both=judging.over_both(apart),
        over_both_a=judging.over_both(side_a),
        over_both_b=judging.over_both(side_b),
        samples=samples,
        seed=seed,
        differing=differing(a, b),
    )


def comparison_table(compared: Comparison) -> Table:
    """Return the scores of two compared runs, their difference, and what can be said of it."""
    scale = scale_of(compared.metric)
    scores = [compared.over_both_a, compared.over_both_b, compared.over_both]
    way = "" if scale.greater_is_better else ", smaller is better"
    columns = [
        Column("", [compared.a, compared.b, "difference"], words=True),
        score_column(
            f"{compared.split} {metric_text(compared.metric)}{way}",
            [Cell(score.interval, scale) for score in scores],
        ),
    ]
    pairs = [
        f"{name.replace('_', ' ')} {value_text(name, value_a)} and {value_text(name, value_b)}"
        for name, (value_a, value_b) in compared.differing.items()
    ]
    ends = (compared.low, compared.high)
    low, high = (f"{end * scale.factor:+z.{scale.decimals}f}" for end in ends)
    both = compared.over_both
    seeds = f"{both.n_seeds} seeds and " * bool(both.seed_share)
    how = "crossed" if seeds else "jackknife"
    degrees = f"{both.df:,.0f}" if both.df >= 100 else f"{both.df:.3g}"
    lines = [
        f"± is the half width of the 95 % interval over {seeds}{both.drawn.text} ({how}, "
        f"Student's t with {degrees} degrees of freedom), p = {both.p:.2g}",
        f"95 % interval of the difference: {low} to {high}, p = {compared.p:.2g} (paired "
        f"bootstrap, {compared.samples:,} samples of {both.drawn.text})",
        _seeds_text(compared.over_seeds.scaled(scale.factor), scale.decimals),
    ]
    if pairs:
        lines.append(f"the runs differ in {', '.join(pairs)}")
    return Table(columns, notes=lines)


def _seeds_text(over: Interval, decimals: int) -> str:
    if over.n == 1:
        return "one seed each, so the variation between seeds is unknown"
    if over.half is None:
        return f"the same difference with each of {over.n} seeds: {over.mean:+z.{decimals}f}"
    mean, half = f"{over.mean:+z.{decimals}f}", f"{over.half:.{decimals}f}"
    return f"over {over.n} paired seeds: {mean} ± {half} (95 % interval, Student's t)"


_DEPTH_SAMPLES = 2000  # of the bootstrap; more where Holm asks for it, of so many depths

ByDepth = Mapping[int, Sequence[Record]]


@dataclass(frozen=True, kw_only=True)
class BestDepth:
    """The best depth on dev, and those within noise of it.

    Attributes:
        best: the depth with the best mean dev score; of equal ones the lowest.
        within: depths within noise of it, and itself, ascending.
        among: all depths of the curve, ascending.
        n_seeds: seeds that were paired; 0 where they were not: one seed, or all alike.
        drawn: dev sentences, or groups of them, that were paired; None where the records hold no
            predictions. Over the tasks of a suite, the tasks.
    """

    best: int
    within: tuple[int, ...]
    among: tuple[int, ...]
    n_seeds: int = 0
    drawn: Drawn | None = None

    @property
    def runs(self) -> list[list[int]]:
        """The depths within noise, each list of neighbours by itself."""
        return neighbours(self.within, self.among)

    @property
    def text(self) -> str:
        """Best depth and the depths within noise of it, as one line."""
        others = [depth for depth in self.within if depth != self.best]
        depths_text = numbers_text(self.within, self.among) if others else "no other"
        near = f"~ within noise of it: {depths_text} ({noise_text([self])})"
        return f"best on dev: layer {self.best}; {near}"


Tested = tuple[Mapping[int, float], Drawn | None]
"""Significance of each depth's difference to the best one, and what it is over."""


def noise_text(best: Sequence[BestDepth]) -> str:
    """Return what depths were compared over, in words, such as ``paired over 5 seeds``."""
    seeds = [Drawn(curve.n_seeds, "seeds") for curve in best if curve.n_seeds]
    sentences = [curve.drawn for curve in best if curve.drawn is not None]
    units = " and ".join(drawn_text(each) for each in (seeds, sentences) if each)
    if not units:
        return "exact ties only"
    ties = any(not curve.n_seeds and curve.drawn is None for curve in best)
    return f"paired over {units}" + ", elsewhere exact ties" * ties


def best_depths(records: Sequence[Record]) -> dict[str, BestDepth]:
    """Return the best depth of every curve of two depths or more, by the curve's name.

    Args:
        records: any that have a depth.
    """
    curves = series(records, given=["depth"])
    return {
        name: best_depth(members)
        for name, members in curves.items()
        if len({record.depth for record in members}) > 1
    }


def best_depth(records: Sequence[Record]) -> BestDepth:
    """Return the best depth on dev, and which depths are within noise of it.

    A depth is outside where all that can be tested is sure of its difference to the best one:
    over seeds (Student's t on paired differences) where there are several and their scores differ,
    and over dev sentences or groups of them (paired bootstrap) where the records hold predictions.
    The significance levels of all depths are corrected together at 5 % (Holm 1979). Where nothing
    can be tested, only depths with exactly the same score are within.

    Args:
        records: of one curve: they differ in depth and seed alone, and all have a depth.
    """
    by_depth = {
        depth: sorted(group, key=lambda record: record.seed)
        for (depth,), group in grouped(records, ["depth"]).items()
    }
    means = {d: interval(r.eval_score for r in group).mean for d, group in by_depth.items()}
    best = scale_of(records[0].metric).best(means)
    (p_seeds, seeds), (p, sentences) = _over_seeds(by_depth, best), _over_sentences(by_depth, best)
    ties = {depth for depth, mean in means.items() if mean == means[best]}
    return BestDepth(
        best=best,
        within=tuple(sorted(ties | undecided(p_seeds) | undecided(p))),
        among=tuple(by_depth),
        n_seeds=0 if seeds is None else seeds.n,
        drawn=sentences,
    )


def _over_seeds(by_depth: ByDepth, best: int) -> Tested:
    """Test the differences of the seeds that a depth and the best one share."""
    if not any(len({r.eval_score for r in group}) > 1 for group in by_depth.values()):
        return {}, None  # one seed, or seeds that change nothing
    scores = {d: {r.seed: r.eval_score for r in group} for d, group in by_depth.items()}
    differences = {
        depth: [by_seed[seed] - scores[best][seed] for seed in by_seed if seed in scores[best]]
        for depth, by_seed in scores.items()
        if depth != best
    }
    tested = {depth: values for depth, values in differences.items() if len(values) > 1}
    p = {depth: student_p(values) for depth, values in tested.items()}
    return p, Drawn(max(map(len, tested.values())), "seeds") if tested else None


def _over_sentences(by_depth: ByDepth, best: int) -> Tested:
    """Test the differences of what the same seeds predicted for the same dev sentences."""
    seeds = [record.seed for record in by_depth[best]]
    runs = {
        depth: RecordedRun.of(f"depth {depth}", group)
        for depth, group in by_depth.items()
        if all(record.predictions is not None for record in group)
        and [record.seed for record in group] == seeds
    }
    others = [depth for depth in runs if depth != best]
    if best not in runs or not others:
        return {}, None
    try:
        beside = put_beside([runs[depth] for depth in (best, *others)], "dev")
        resamplers = [run.resampler() for run in beside]
        scores = Bootstrap(samples=max(_DEPTH_SAMPLES, judging.SAMPLES_EACH * len(runs))).resample(
            beside[0].groups,
            lambda counts: np.stack([score(counts) for score in resamplers], axis=1),
        )
    except ProbekitError as error:
        logger.warning("depths are not compared over sentences: %s", error)
        return {}, None
    groups, apart = beside[0].groups, scores[:, 1:].T - scores[:, 0]
    p = {n: estimate(0.0, samples, groups).p for n, samples in zip(others, apart, strict=True)}
    return p, groups.drawn
