"""The difference of two runs on one split, how sure it is given its sentences, and its table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from probekit.errors import RecordError
from probekit.metrics import scale_of
from probekit.results.comparison.crossed import Crossed
from probekit.results.comparison.judging import bootstrapped, over_both, over_sentences
from probekit.results.comparison.pairing import put_beside
from probekit.results.comparison.resampling import SAMPLES, Bootstrap
from probekit.results.comparison.runs import RecordedRun, differing, run_names, under_one_name
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.scored import reported_split
from probekit.results.summaries.typeset import Cell, Column, Table, score_column
from probekit.results.summaries.wording import metric_text, value_text


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
    if a.seeds != b.seeds and len(a.seeds) + len(b.seeds) > 2:
        seeds_a, seeds_b = (", ".join(map(str, run.seeds)) for run in (a, b))
        raise RecordError(
            f"{a.text} has seeds {seeds_a}, {b.text} has {seeds_b}: seeds are compared in pairs. "
            "Train the missing ones, or choose with --where seed=0."
        )
    split = split or reported_split([*a.records, *b.records])
    bootstrap = Bootstrap(samples=samples, seed=seed)
    beside = put_beside([a, b], split, metric)
    side_a, side_b = ([*by_seed.values()] for by_seed in over_sentences(beside, bootstrap))
    apart = [x - y for x, y in zip(side_a, side_b, strict=True)]
    over_seeds, sentences = interval(x.score for x in apart), bootstrapped(side_a, side_b)
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
        over_both=over_both(apart),
        over_both_a=over_both(side_a),
        over_both_b=over_both(side_b),
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
        return "one seed each: how much another seed would change is not known"
    if over.half is None:
        return f"the same difference with each of {over.n} seeds: {over.mean:+z.{decimals}f}"
    mean, half = f"{over.mean:+z.{decimals}f}", f"{over.half:.{decimals}f}"
    return f"over {over.n} paired seeds: {mean} ± {half} (95 % interval, Student's t)"
