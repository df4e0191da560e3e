"""Every pair of settings of a file, with its difference and a verdict corrected for all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from probekit.base.markup import html_view
from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.metrics import METRICS, scale_of
from probekit.results.comparison.evidence import score_on
from probekit.results.comparison.judging import SAMPLES, Judged, judge, method_text
from probekit.results.comparison.references import (
    all_pairs,
    reference_text,
    settings,
    with_reference,
)
from probekit.results.record import Record
from probekit.results.summaries.baseline_scores import without_baselines
from probekit.results.summaries.grouping import Key
from probekit.results.summaries.scored import reported_split
from probekit.results.summaries.text_layout import NOTHING, Column
from probekit.results.summaries.typeset import BARE, Style, html_columns, laid_out
from probekit.results.summaries.wording import metric_text

HIGHER, LOWER = "\N{UPWARDS ARROW}", "\N{DOWNWARDS ARROW}"
ARROWS: Mapping[str | None, str] = {"higher": HIGHER, "lower": LOWER, None: ""}
"""What marks a verdict."""


class Comparisons(list[Judged]):
    """Comparisons of one family, which a notebook shows as a table.

    Attributes:
        samples: bootstrap samples that were asked for.
    """

    def __init__(self, found: Iterable[Judged] = (), samples: int = SAMPLES) -> None:
        """Keep the comparisons."""
        super().__init__(found)
        self.samples = samples

    def _repr_html_(self) -> str:
        """Return the table of all pairs, and how they were judged."""
        if not self:
            return html_view(title="no comparisons")
        return html_view(html_columns(pair_columns(self)), notes=below_pairs(self, self.samples))


def compare_all(
    records: Sequence[Record],
    *,
    split: str | None = None,
    metric: str | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Comparisons:
    """Compare every two settings that were run on the same data, as one family.

    Baselines are left out: control labels, codes, guesses and random weights.

    Args:
        records: of at least two settings.
        split: ``test``, ``dev`` or another; unset it is test where all have a score there.
        metric: how they are scored, such as ``loss``; None is the metric of the records.
        samples: bootstrap samples; of a large family more are drawn.
        seed: of the samples.

    Raises:
        OptionError: too few samples.
        UnknownNameError: there is no such metric.
        RecordError: no two settings share their data, or have a score on the split.
    """
    if metric is not None:
        choose("metric", metric, METRICS)
    heads = without_baselines(records)
    split = split or reported_split(heads)
    scored = [record for record in heads if score_on(record, split, metric) is not None]
    if heads and not scored:
        what = "a score" if metric is None else f"the score {metric}"
        raise RecordError(
            f"none of {len(heads)} records has {what} on {split}; choose another --split."
        )
    found = judge(all_pairs(settings(scored)), split, metric, samples=samples, seed=seed)
    return Comparisons(found, samples)


def pairs_table(found: Sequence[Judged], style: Style = "text", samples: int = SAMPLES) -> str:
    """Return a row for every pair: both scores, their difference, its interval and the verdict.

    Args:
        found: what ``compare_all`` returned.
        style: as for ``table``.
        samples: what it was given.
    """
    text = laid_out(
        pair_columns(found, ends=style in BARE), [one.to_json() for one in found], style
    )
    if style in BARE:
        return text
    lines = below_pairs(found, samples)
    if style == "html":
        return html_view(text, notes=lines)
    between = "\n\n" if style == "markdown" else "\n"
    return text + "\n" + between.join(lines) + "\n"


def pair_columns(found: Sequence[Judged], *, ends: bool = False) -> list[Column]:
    """Return the columns of `pairs_table`, to be laid out.

    Args:
        found: the comparisons.
        ends: give both ends of the interval a column of their own, as programs read them.
    """
    return [
        Column("a", [one.a for one in found], words=True),
        Column("b", [one.b for one in found], words=True),
        Column("seeds", [str(one.n_seeds) for one in found]),
        _scores("score a", found, [one.score_a for one in found]),
        _scores("score b", found, [one.score_b for one in found]),
        _scores("difference", found, [one.difference for one in found], signed=True),
        *_interval_columns(found, ends),
        _p_column("p", [one.p for one in found]),
        _p_column("p (Holm)", [one.corrected for one in found]),
        Column("a is", [one.verdict or "open" for one in found], words=True),
    ]


def _interval_columns(found: Sequence[Judged], ends: bool) -> list[Column]:
    low = _scores("95 % interval, low", found, [one.low for one in found], signed=True)
    high = _scores("95 % interval, high", found, [one.high for one in found], signed=True)
    if ends:
        return [low, high]
    pairs = zip(low.cells, high.cells, strict=True)
    cells = [NOTHING if NOTHING in pair else " to ".join(pair) for pair in pairs]
    return [Column("95 % interval", cells)]


def _scores(
    heading: str, found: Sequence[Judged], scores: Sequence[float | None], *, signed: bool = False
) -> Column:
    """Return a column of scores, each as its metric is shown."""
    scales = [scale_of(one.metric) for one in found]
    values = [
        None if score is None else score * scale.factor
        for score, scale in zip(scores, scales, strict=True)
    ]
    sign = "+" if signed else ""
    cells = [
        NOTHING if value is None else f"{value:{sign}z.{scale.decimals}f}"
        for value, scale in zip(values, scales, strict=True)
    ]
    return Column(heading, cells, values=values)


def _p_column(heading: str, values: Sequence[float | None]) -> Column:
    return Column(heading, list(map(_p_text, values)), values=values)


def below_pairs(found: Sequence[Judged], samples: int = SAMPLES) -> list[str]:
    """Return what is said below such a table: what the scores are, and how they were judged."""
    names = sorted({one.metric for one in found})
    metrics = " or ".join(
        metric_text(name) + ", smaller is better" * (not scale_of(name).greater_is_better)
        for name in names
    )
    pairs = f"all {len(found)} pairs" if len(found) > 1 else "the only pair"
    scores = f"{found[0].split} {metrics}, means over the seeds of both; {pairs}"
    return [scores, *method_text(found, samples)]


def _p_text(p: float | None) -> str:
    return NOTHING if p is None else f"{p:.2g}" if p >= 1e-4 else f"{p:.0e}"


@dataclass(frozen=True)
class Verdicts:
    """What is known of the rows of a table against their references.

    Attributes:
        split: the split that they were compared on.
        rows: by the options of a row; references, and rows without one, are not in it.
        lines: what the marks mean, and how it was found.
    """

    split: str
    rows: Mapping[Key, Judged]
    lines: Sequence[str]

    def _repr_html_(self) -> str:
        """Return a row for every setting with its reference."""
        table = html_columns(pair_columns(list(self.rows.values())))
        return html_view(table, notes=self.lines)


def verdicts(
    records: Sequence[Record],
    against: str | None = None,
    *,
    split: str | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Verdicts:
    """Compare every setting with its reference, all of them as one family.

    Args:
        records: those of a table.
        against: the reference: a head, or conditions such as ``head=mean,normalize=none``; None is
            ``last``.
        split: ``test`` or ``dev``; unset it is test where all records have a score there.
        samples: bootstrap samples; of a large family more are drawn.
        seed: of the samples.

    Raises:
        OptionError: a condition is malformed, several references are as near, or too few samples.
        RecordError: nothing meets the condition, or nothing can be compared with what does.
    """
    split = split or reported_split(records)
    scored = [record for record in records if score_on(record, split) is not None]
    runs = settings(scored)
    pairs = with_reference(scored, runs, against)
    found = judge(pairs, split, samples=samples, seed=seed)
    keys = {run.text: key for key, run in runs.items()}
    references = {id(two) for own in pairs.values() for _, two in own}
    without = len(runs) - len(references) - len(found)
    lines = [
        f"{HIGHER} {LOWER} {split} higher or lower than {reference_text(pairs, scored)} (5 %)",
        *method_text(found, samples),
        f"{without} rows have no reference on the same data" * bool(without),
    ]
    return Verdicts(split, {keys[one.a]: one for one in found}, [line for line in lines if line])
