"""Every pair of settings of a file, with its difference and a verdict corrected for all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.metrics import METRICS, scale_of
from probekit.results.comparison.judging import SAMPLES_EACH, Judged, judge
from probekit.results.comparison.resampling import SAMPLES, Bootstrap
from probekit.results.comparison.runs import all_pairs, reference_text, settings, with_reference
from probekit.results.record import Record
from probekit.results.summaries.grouping import Key, without_baselines
from probekit.results.summaries.interval import LEVEL, drawn_text, least_p
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

    def __init__(self, comparisons: Iterable[Judged] = (), samples: int = SAMPLES) -> None:
        """Keep the comparisons."""
        super().__init__(comparisons)
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
    comparisons = judge(all_pairs(settings(scored)), split, metric, bootstrap)
    return Comparisons(comparisons, samples)


def pairs_table(pairs: Sequence[Judged], samples: int = SAMPLES) -> Table:
    """Return a row for every pair: both scores, their difference, its interval and the verdict.

    Args:
        pairs: what ``compare_all`` returned.
        samples: what it was given.
    """
    names = sorted({pair.metric for pair in pairs})
    metrics = " or ".join(
        metric_text(name) + ", smaller is better" * (not scale_of(name).greater_is_better)
        for name in names
    )
    count = "the only pair" if len(pairs) == 1 else f"all {len(pairs)} pairs"
    split = " or ".join(dict.fromkeys(pair.split for pair in pairs))
    return Table(
        _pair_columns(pairs),
        notes=method_text(pairs, samples),
        caption=f"{split} {metrics}, means over the seeds of both; {count}",
        objects=[asdict(pair) for pair in pairs],
        plain=_pair_columns(pairs, ends=True),
    )


def _pair_columns(pairs: Sequence[Judged], *, ends: bool = False) -> list[Column]:
    """Return the columns of `pairs_table`; the ends of intervals have their own for programs."""
    low = _scores("95 % interval, low", pairs, "low", "+")
    high = _scores("95 % interval, high", pairs, "high", "+")
    both = zip(low.cells, high.cells, strict=True)
    cells = [NOTHING if NOTHING in pair else " to ".join(pair) for pair in both]
    p, corrected = [pair.p for pair in pairs], [pair.corrected for pair in pairs]
    return [
        Column("a", [pair.a for pair in pairs], words=True),
        Column("b", [pair.b for pair in pairs], words=True),
        Column("seeds", [str(pair.n_seeds) for pair in pairs]),
        _scores("score a", pairs, "score_a"),
        _scores("score b", pairs, "score_b"),
        _scores("difference", pairs, "difference", "+"),
        *([low, high] if ends else [Column("95 % interval", cells)]),
        Column("p", list(map(_p_text, p)), values=p),
        Column("p (Holm)", list(map(_p_text, corrected)), values=corrected),
        Column("a is", [pair.verdict or "open" for pair in pairs], words=True),
    ]


def _scores(heading: str, pairs: Sequence[Judged], field: str, sign: str = "") -> Column:
    """Return a column of scores, each as its metric is shown."""
    cells, values = [], []
    for pair in pairs:
        score, scale = getattr(pair, field), scale_of(pair.metric)
        value = None if score is None else score * scale.factor
        values.append(value)
        cells.append(NOTHING if value is None else f"{value:{sign}z.{scale.decimals}f}")
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
    judged = judge(pairs, split, bootstrap=Bootstrap(samples=samples, seed=seed))
    keys = {run.text: key for key, run in runs.items()}
    references = {id(two) for of_data in pairs.values() for _, two in of_data}
    without = len(runs) - len(references) - len(judged)
    lines = [
        f"{HIGHER} {LOWER} {split} higher or lower than {reference_text(pairs, scored)} (5 %)",
        *method_text(judged, samples),
        f"{without} rows have no reference on the same data" * bool(without),
    ]
    return Verdicts(
        split, {keys[pair.a]: pair for pair in judged}, [line for line in lines if line]
    )


def method_text(pairs: Sequence[Judged], samples: int = SAMPLES) -> list[str]:
    """Return lines that say how some comparisons were made, and what could not be known.

    Args:
        pairs: a family.
        samples: bootstrap samples that were asked for.
    """
    tested = [pair for pair in pairs if pair.p is not None]
    samples = max(samples, SAMPLES_EACH * len(pairs))
    ways = dict.fromkeys(pair.over for pair in sorted(tested, key=_place))
    by = [_by_text([pair for pair in tested if pair.over == over], samples) for over in ways]
    size = f"all {len(tested)} corrected together (Holm 1979)" * (len(tested) > 1)
    lines = ["; ".join(part for part in (*by, size) if part)]
    lacking = []
    if few := [pair for pair in tested if pair.over == "seeds" and least_p(pair.n_seeds) >= LEVEL]:
        seeds = [pair.n_seeds for pair in few]
        least = f"with {range_text(seeds)} seeds p is {least_p(max(seeds)):.2g} or more"
        lacking.append((few, f"no verdict for {_listed(few)}: {least}"))
    if unknown := [pair for pair in pairs if pair.p is None]:
        why = "one seed, or seeds that all score alike"
        lacking.append((unknown, f"no test of {_listed(unknown)}: {why}"))
    lines += [
        f"{said}, and sentences were not compared ({some[0].why_not}). Train with --predictions, "
        "or more seeds"
        for some, said in lacking
    ]
    return [line for line in lines if line]


def _place(pair: Judged) -> int:
    """Return the place of a comparison's way in what is said: both, sentences, seeds."""
    return 2 if pair.drawn is None else pair.over == pair.drawn.noun


def _by_text(pairs: Sequence[Judged], samples: int) -> str:
    """Return how some comparisons over the same were made."""
    drawn = [pair.drawn for pair in pairs if pair.drawn is not None]
    if not drawn:
        return "p over seeds alone (sign-flip test)"
    units = drawn_text(drawn)
    how = f"paired bootstrap, {samples:,} samples"
    if pairs[0].over != drawn[0].noun:
        more = f"the larger p of a {how} and of crossed variance components"
        return f"p over seeds and {units} ({more})"
    if drawn[0].noun != "sentences":
        how = f"the larger p of a {how} and of a jackknife"
    return f"p over {units} ({how}), where there is one seed or all seeds agree"


_MANY = 4


def _listed(pairs: Sequence[Judged]) -> str:
    """Return the first settings of some comparisons, or how many there are."""
    names = list(dict.fromkeys(pair.a for pair in pairs))
    if len(names) > _MANY:
        return f"{len(pairs)} comparisons"
    return ("; " if any(", " in name for name in names) else ", ").join(names)
