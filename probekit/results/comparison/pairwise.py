"""Every pair of settings of a file, with its difference and a verdict corrected for all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.metrics import METRICS, scale_of
from probekit.results.comparison.judging import SAMPLES_EACH, Judged, judge
from probekit.results.comparison.references import (
    all_pairs,
    reference_text,
    settings,
    with_reference,
)
from probekit.results.comparison.resampling import SAMPLES, Bootstrap, drawn_text
from probekit.results.record import Record
from probekit.results.summaries.baseline_scores import without_baselines
from probekit.results.summaries.grouping import Key
from probekit.results.summaries.interval import LEVEL, least_p
from probekit.results.summaries.scored import reported_split, score_on
from probekit.results.summaries.typeset import NOTHING, Column, Table
from probekit.results.summaries.wording import metric_text, range_text

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
        return pairs_table(self, self.samples)._repr_html_()


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
    bootstrap = Bootstrap(samples=samples, seed=seed)
    found = judge(all_pairs(settings(scored)), split, metric, bootstrap)
    return Comparisons(found, samples)


def pairs_table(found: Sequence[Judged], samples: int = SAMPLES) -> Table:
    """Return a row for every pair: both scores, their difference, its interval and the verdict.

    Args:
        found: what ``compare_all`` returned.
        samples: what it was given.
    """
    names = sorted({one.metric for one in found})
    metrics = " or ".join(
        metric_text(name) + ", smaller is better" * (not scale_of(name).greater_is_better)
        for name in names
    )
    pairs = "the only pair" if len(found) == 1 else f"all {len(found)} pairs"
    split = " or ".join(dict.fromkeys(one.split for one in found))
    return Table(
        _pair_columns(found),
        notes=method_text(found, samples),
        caption=f"{split} {metrics}, means over the seeds of both; {pairs}",
        objects=[asdict(one) for one in found],
        plain=_pair_columns(found, ends=True),
    )


def _pair_columns(found: Sequence[Judged], *, ends: bool = False) -> list[Column]:
    """Return the columns of `pairs_table`; the ends of intervals have their own for programs."""
    low = _scores("95 % interval, low", found, [one.low for one in found], signed=True)
    high = _scores("95 % interval, high", found, [one.high for one in found], signed=True)
    both = zip(low.cells, high.cells, strict=True)
    cells = [NOTHING if NOTHING in pair else " to ".join(pair) for pair in both]
    return [
        Column("a", [one.a for one in found], words=True),
        Column("b", [one.b for one in found], words=True),
        Column("seeds", [str(one.n_seeds) for one in found]),
        _scores("score a", found, [one.score_a for one in found]),
        _scores("score b", found, [one.score_b for one in found]),
        _scores("difference", found, [one.difference for one in found], signed=True),
        *([low, high] if ends else [Column("95 % interval", cells)]),
        *(
            Column(heading, list(map(_p_text, values)), values=values)
            for heading, values in (
                ("p", [one.p for one in found]),
                ("p (Holm)", [one.corrected for one in found]),
            )
        ),
        Column("a is", [one.verdict or "open" for one in found], words=True),
    ]


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
        return Table(_pair_columns([*self.rows.values()]), self.lines)._repr_html_()


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
    found = judge(pairs, split, bootstrap=Bootstrap(samples=samples, seed=seed))
    keys = {run.text: key for key, run in runs.items()}
    references = {id(two) for own in pairs.values() for _, two in own}
    without = len(runs) - len(references) - len(found)
    lines = [
        f"{HIGHER} {LOWER} {split} higher or lower than {reference_text(pairs, scored)} (5 %)",
        *method_text(found, samples),
        f"{without} rows have no reference on the same data" * bool(without),
    ]
    return Verdicts(split, {keys[one.a]: one for one in found}, [line for line in lines if line])


def method_text(found: Sequence[Judged], samples: int = SAMPLES) -> list[str]:
    """Return lines that say how some comparisons were made, and what could not be known.

    Args:
        found: a family.
        samples: bootstrap samples that were asked for.
    """
    tested = [one for one in found if one.p is not None]
    samples = max(samples, SAMPLES_EACH * len(found))
    ways = dict.fromkeys(one.over for one in sorted(tested, key=_place))
    by = [_by_text([one for one in tested if one.over == over], samples) for over in ways]
    size = f"all {len(tested)} corrected together (Holm 1979)" * (len(tested) > 1)
    lines = ["; ".join(part for part in (*by, size) if part)]
    lines += _few_seeds(tested)
    unknown = [one for one in found if one.p is None]
    if unknown:
        lines.append(
            f"nothing is known of {_listed(unknown)}: one seed, or seeds that are all alike, and "
            f"not over sentences ({unknown[0].why_not})"
        )
    return [line for line in lines if line]


def _place(one: Judged) -> int:
    """Return the place of a comparison's way in what is said: both, sentences, seeds."""
    return 2 if one.drawn is None else one.over == one.drawn.noun


def _by_text(found: Sequence[Judged], samples: int) -> str:
    """Return how some comparisons over the same were made."""
    drawn = [one.drawn for one in found if one.drawn is not None]
    if not drawn:
        return "p over seeds alone (flipped signs)"
    units = drawn_text(drawn)
    how = f"paired bootstrap, {samples:,} samples"
    if found[0].over != drawn[0].noun:
        more = f"the larger one of a {how}, and of crossed variance components"
        return f"p over seeds and {units} ({more})"
    if drawn[0].noun != "sentences":
        how = f"the larger one of a {how}, and of a jackknife"
    return f"p over {units} ({how}), where there is one seed or none differs"


def _few_seeds(tested: Sequence[Judged]) -> list[str]:
    """Return what keeps those that are over seeds alone from a verdict, if anything does."""
    alone = [one for one in tested if one.over == "seeds"]
    few = sorted({one.n_seeds for one in alone if least_p(one.n_seeds) >= LEVEL})
    if not few:
        return []
    return [
        f"{range_text(few)} seeds alone cannot go below p = {least_p(max(few)):.2g}, so that "
        f"{_listed([one for one in alone if one.n_seeds in few])} can have no verdict; not over "
        f"sentences: {alone[0].why_not}. Train with --predictions, or more seeds"
    ]


_MANY = 4


def _listed(found: Sequence[Judged]) -> str:
    """Return the first settings of some comparisons, or how many there are."""
    names = list(dict.fromkeys(one.a for one in found))
    if len(names) > _MANY:
        return f"{len(found)} comparisons"
    return ", ".join(names)
