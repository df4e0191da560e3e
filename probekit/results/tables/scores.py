"""The table of scores: a row per setting, over its seeds, with the options that differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from probekit.base.selection import FIXED
from probekit.errors import OptionError, RecordError
from probekit.metrics import METRICS, OF_PROBABILITIES, RecallAtFPR, Scale, scale_of
from probekit.results.comparison.judging import Judged
from probekit.results.comparison.mean_scores import mean_score
from probekit.results.comparison.pairwise import ARROWS, Verdicts
from probekit.results.record import Record
from probekit.results.summaries import wording
from probekit.results.summaries.diagnosis import MARK, marks, notes
from probekit.results.summaries.grouping import RANDOM, grouped, naming
from probekit.results.summaries.interval import Interval, interval, interval_text
from probekit.results.summaries.scored import has_two_scores
from probekit.results.summaries.select import CHOSE, BestOptions
from probekit.results.summaries.typeset import NOTHING, Cell, Column, Style, Table, score_column

_RAW = Scale(percent=False)
BESIDE: Mapping[str, tuple[str, Scale | None]] = {
    "dev-mm/accuracy": ("dev-mm", Scale()),
    "majority": ("majority", None),
    "memorised": ("memorised", None),
    "all labels": ("all labels", None),
    RANDOM: (RANDOM, None),
    "accuracy": ("accuracy", Scale()),
    "control/accuracy": ("control accuracy", Scale()),
    "selectivity": ("selectivity", Scale()),
    "bits per label": ("bits per label", _RAW),
    "compression": ("compression", _RAW),
    "test/alarm-recall": ("recall at dev's threshold", Scale()),
    "test/alarm-fpr": ("false positives there", Scale()),
}
"""Scores that a table shows where there are some, such as MNLI's mismatched dev and what baselines
add: title of the column, and scale; None is that of the row's metric."""

_ALARMS = ("test/alarm-recall", "test/alarm-fpr")
"""Those that are shown beside the recall at few false positives alone."""

_HELD = tuple(metric.name for metric in OF_PROBABILITIES)


def other_scores(group: Sequence[Record], also: Sequence[str]) -> dict[str, Interval]:
    """Return other scores of one setting, as in the records, over its seeds.

    These are the ones of `BESIDE`, those of probabilities on every split, and what is asked for.

    Args:
        group: records that differ in their seed alone.
        also: names of scores that are asked for.
    """
    names = [
        name
        for name in group[0].scores
        if (name in BESIDE and (group[0].metric == RecallAtFPR.name or name not in _ALARMS))
        or name.rpartition("/")[2] in _HELD
        or _answers(name, also)
    ]
    order = [*(name for name in BESIDE if name in names), *names]
    return {
        name: interval(record.scores[name] for record in group)
        for name in dict.fromkeys(order)
        if all(name in record.scores for record in group)
    }


def check_also(records: Sequence[Record], also: Sequence[str]) -> None:
    """Check that some record has each score that is asked for.

    Raises:
        OptionError: none has.
    """
    held = dict.fromkeys(name for record in records for name in record.scores)
    for name in also:
        if any(_answers(score, [name]) for score in held):
            continue
        if name.rpartition("/")[2] in _HELD:
            raise OptionError(
                f"--also {name}: no record holds it. Regressions record only a loss, and earlier "
                "versions none; for those, run their command again with another --out."
            )
        choices = dict.fromkeys(score.partition("/")[2] or score for score in held)
        raise OptionError(
            f"--also {name}: no record has such a score; choose from: {', '.join(sorted(choices))}."
        )


def other_columns(
    rows: Sequence[tuple[str, Mapping[str, Interval]]], also: Sequence[str]
) -> Iterator[Column]:
    """Yield the columns of `BESIDE` that some row has, then those that are asked for.

    Args:
        rows: metric of each row, and its other scores by name.
        also: ``loss`` for that of every split, or ``test/loss`` for one.
    """
    held = dict.fromkeys(name for _, scores in rows for name in scores)
    titles = {name: BESIDE[name] for name in BESIDE if name in held}
    for name in (name for asked in also for name in held if _answers(name, [asked])):
        split, _, score = name.partition("/")
        scale = scale_of(score)
        titles.setdefault(name, (f"{split} {score}" + " (%)" * scale.percent, scale))
    for name, (title, own_scale) in titles.items():
        cells = [
            Cell(scores[name], own_scale or scale_of(metric)) if name in scores else None
            for metric, scores in rows
        ]
        yield score_column(title, cells)


def _answers(name: str, asked: Sequence[str]) -> bool:
    """Say whether a record's score is one that is asked for: ``test/loss`` is a ``loss``."""
    return name in asked or name.partition("/")[2] in asked


ALWAYS = ("head", "shots")
"""Options that every row is named by."""


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """Records that differ in their seed alone, as one line of a table.

    Attributes:
        options: the options they share, by name.
        metric: the metric of the scores.
        seeds: their seeds, ascending.
        eval_score: best dev score as in the records (not in percent), mean and interval.
        eval_last: last dev score.
        test_score: test score over the seeds that have one; None without any.
        n_params: trained parameters, rounded mean.
        train_seconds: mean wall-clock seconds of training.
        diverged: how many of the runs diverged.
        two_scores: whether best and last dev score are two things in some of the runs.
        marks: what is wrong with any of the runs, in words.
        rate_from: where their rates are from; None where they have none, or do not say.
        beside: other scores that all the records hold, such as ``selectivity`` or ``test/loss``.
        among: how many settings dev chose this one among; None where it chose none.
        chosen: the options that it chose.
        verdict: what is known of its difference to the reference row, if that was asked for.
    """

    options: Mapping[str, Any]
    metric: str
    seeds: tuple[int, ...]
    eval_score: Interval
    eval_last: Interval
    test_score: Interval | None
    n_params: int
    train_seconds: float
    diverged: int = 0
    two_scores: bool = False
    marks: tuple[str, ...] = ()
    rate_from: str | None = None
    beside: Mapping[str, Interval] = field(default_factory=dict)
    among: int | None = None
    chosen: tuple[str, ...] = ()
    verdict: Judged | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain values; what was not asked for is left out."""
        unasked = [name for name in _IF_ASKED if not getattr(self, name)]
        return {name: value for name, value in asdict(self).items() if name not in unasked}

    @property
    def n(self) -> int:
        """Number of seeds."""
        return len(self.seeds)


_IF_ASKED = ("among", "chosen", "verdict")


def summarise(
    records: Sequence[Record],
    also: Sequence[str] = (),
    *,
    best: BestOptions | None = None,
    judged: Verdicts | None = None,
) -> list[ScoreRow]:
    """Group records over seeds.

    Args:
        records: any records.
        also: other scores that a table is to show, such as ``loss`` or ``test/loss``.
        best: what dev chose of each head, if it did; of what it chose dev is too good a score.
        judged: verdicts on the difference of rows to a reference, if there are any.

    Returns:
        One row per combination of options, in a fixed order (baselines first, shots ascending).

    Raises:
        RecordError: there are no records, or a setting has two of one seed.
        OptionError: ``also`` names no score.
    """
    if not records:
        raise RecordError("no records; run `probekit train` or `probekit sweep` first.")
    check_also(records, also)
    rows = []
    for key, group in grouped(records, tuple(wording.OPTIONS)).items():
        options = dict(zip(wording.OPTIONS, key, strict=True))
        what = wording.options_text({name: options[name] for name in ALWAYS})
        tested = [record for record in group if record.test_score is not None]
        doubtful = not tested and best is not None and best.chose(key)
        row = ScoreRow(
            options=options,
            metric=group[0].metric,
            seeds=tuple(sorted(record.seed for record in group)),
            eval_score=mean_score(group, "eval_score", what),
            eval_last=mean_score(group, "eval_last", what),
            test_score=mean_score(tested, "test_score", what) if tested else None,
            n_params=round(interval(record.n_params for record in group).mean),
            train_seconds=interval(record.train_seconds for record in group).mean,
            diverged=sum(record.diverged for record in group),
            two_scores=has_two_scores(group),
            marks=marks(group) + (CHOSE,) * doubtful,
            rate_from=" or ".join(sorted({r.rate_from for r in group if r.rate_from})) or None,
            beside=other_scores(group, also),
            among=best.among.get(key) if best else None,
            chosen=tuple(best.by) if best else (),
            verdict=judged.rows.get(key) if judged else None,
        )
        rows.append(row)
    return rows


def score_table(
    records: Sequence[Record],
    also: Sequence[str] = (),
    *,
    best: BestOptions | None = None,
    judged: Verdicts | None = None,
) -> Table:
    """Return scores: the options that differ, seeds, scores, parameters and seconds.

    Scores are percent (perplexity: raw) with the half width of their 95 % interval (`mean_score`);
    an asterisk follows those of runs with a trouble, which a line below says, and an arrow those
    that are surely higher or lower than their reference, where there are verdicts. JSON lines have
    a row each, with scores as in the records.

    Args:
        records: of the rows.
        also: other scores that have columns.
        best: what dev chose of each head, if it did.
        judged: verdicts against a reference, if there are any.

    Raises:
        RecordError: see `summarise`.
        OptionError: see `summarise`.
    """
    rows = summarise(records, also=also, best=best, judged=judged)
    on_dev = any(row.test_score is None for row in rows)
    lines = [*said_lines(best, judged, on_dev), *notes(records)]
    shown = _table(rows, also)
    values = [value for column in shown.columns for value in column.values or ()]
    means = [value for value in values if isinstance(value, Interval)]
    return replace(shown, notes=lines, caption=caption(records, means))


def table(rows: Sequence[ScoreRow], style: Style = "text", also: Sequence[str] = ()) -> str:
    """Return rows alone in a style, with nothing below them.

    Args:
        rows: what ``summarise`` returned.
        style: see `Table.text`.
        also: other scores that have a column, as for ``summarise``.

    Raises:
        UnknownNameError: there is no such style.
    """
    return _table(rows, also).text(style)


def _table(rows: Sequence[ScoreRow], also: Sequence[str]) -> Table:
    columns = [*_option_columns(rows), *_result_columns(rows, also)]
    objects = [row.to_json() for row in rows]
    return Table(columns, objects=objects, plain=[*columns, *_said_columns(rows)])


def said_lines(best: BestOptions | None, judged: Verdicts | None, on_dev: bool) -> list[str]:
    """Return the lines below a table about what was chosen, and what was compared."""
    return [*(best.lines(on_dev) if best else ()), *(judged.lines if judged else ())]


def caption(records: Sequence[Record], means: Sequence[Interval], what: str | None = None) -> str:
    """Return one line that says what the numbers of a table are, and what all its runs share.

    Args:
        records: of the table.
        means: the numbers, as they are shown.
        what: what the numbers are; None are the runs' metrics.
    """
    metrics = " or ".join(sorted({wording.metric_text(record.metric) for record in records}))
    diverged = sum(record.diverged for record in records)
    note = f" {diverged} of {len(records)} runs diverged." if diverged else ""
    jumps = any(METRICS[r.metric].jumps for r in records if r.metric in METRICS)
    jumps &= all(mean.over != "tasks" for mean in means)
    how = "bootstrap" if jumps else "Student's t"
    over = interval_text(means, f"mean ± half width of the 95 % interval ({how})")
    return f"{_shared_text(records)}{what or metrics}; {over}.{note}"


def _shared_text(records: Sequence[Record]) -> str:
    """Return task, label, decoder, and what makes rows, where all share them, with a colon."""
    task, label, pooling = (
        _shared(getattr(record, name) for record in records)
        for name in ("task", "label", "pooling")
    )
    decoders = {record.decoder for record in records}
    decoder = _shared(decoders - {"none"} or decoders)  # a guess has none
    named = bool(task and label) and not label[0].isdigit()  # a column of a user's file: 2
    token_head, point = (
        _shared(record.spec.get(name) for record in records) for name in ("token_head", "point")
    )
    # runs on control labels have a label such as ``ner (control 0)``
    control = all(" (control " in record.label for record in records)
    parts = [
        f"{task} {label}" if named else task,
        f"label {label}" if label and not named else None,
        "control labels, random by word type" if control else None,
        decoder and f"decoder {decoder}",
        pooling and wording.option_text("pooling", pooling),
        token_head and f"token head {token_head}",
        point and f"point {point}",
    ]
    text = ", ".join(part for part in parts if part)
    return f"{text}: " if text else ""


def _shared(values: Iterable[Any]) -> Any:
    """Return the value that all runs share, if any."""
    first, *others = set(values)
    return None if others else first


def _option_columns(rows: Sequence[ScoreRow]) -> list[Column]:
    """Return head and amount, the options that differ, those that dev chose, and rates' origin."""
    options = [row.options for row in rows]
    differing = naming(options, lambda name, _: wording.OPTIONS[name].settled_by)
    fractions = [row.options["fraction"] is not None for row in rows]
    always = ("head", "fraction") if rows and all(fractions) else ALWAYS
    shown = {*always, *["fraction"] * any(fractions), *differing}
    shown.update(name for row in rows for name in row.chosen)
    columns = [option_column(name, options) for name in wording.OPTIONS if name in shown]
    origins = [row.rate_from for row in rows]
    if not set(origins) <= {None, FIXED}:
        headings = [column.heading for column in columns]
        behind = headings.index("lr") + 1 if "lr" in headings else len(columns)
        columns.insert(
            behind, Column("rate", [origin or NOTHING for origin in origins], words=True)
        )
    return columns


def option_column(name: str, rows: Sequence[Mapping[str, Any]]) -> Column:
    """Return an option's value of each row; a run on a fraction has no shots, and the reverse."""
    other = {"shots": "fraction", "fraction": "shots"}.get(name, "")
    cells = [
        NOTHING
        if row[name] is None and row.get(other) is not None
        else wording.value_text(name, row[name])
        for row in rows
    ]
    return Column(name.replace("_", " "), cells, words=not wording.OPTIONS[name].number)


def _result_columns(rows: Sequence[ScoreRow], also: Sequence[str]) -> Iterator[Column]:
    """Yield seeds, scores, parameters and seconds; of what no row has, there is no column."""
    yield Column("seeds", [str(row.n) for row in rows])
    two = any(row.two_scores for row in rows)
    yield _scores("dev best" if two else "dev", rows, [row.eval_score for row in rows], "dev")
    if two:
        yield _scores("dev last", rows, [row.eval_last for row in rows])
    yield _scores("test", rows, [row.test_score for row in rows], "test")
    yield from other_columns([(row.metric, row.beside) for row in rows], also)
    if any(row.diverged for row in rows):
        yield Column("diverged", [f"{row.diverged} of {row.n}" for row in rows])
    params = [row.n_params for row in rows]
    yield Column("params", [f"{n:,}" for n in params], values=params)
    seconds = [row.train_seconds for row in rows]
    yield Column("seconds", [f"{n:.1f}" for n in seconds], values=seconds)


def _scores(
    title: str, rows: Sequence[ScoreRow], scores: Sequence[Interval | None], split: str = ""
) -> Column:
    """Return a column of scores, marked; a verdict stands at the split that it is about."""
    cells = []
    for row, score in zip(rows, scores, strict=True):
        judged = row.verdict if row.verdict and row.verdict.split == split else None
        mark = MARK * bool(row.marks) + ARROWS[judged.verdict if judged else None]
        cells.append(Cell(score, scale_of(row.metric), mark) if score else None)
    return score_column(title, cells)


def _said_columns(rows: Sequence[ScoreRow]) -> Iterator[Column]:
    """Yield in words what marks say of rows, where a cell is a plain number."""
    if any(row.marks for row in rows):
        yield Column("troubles", ["; ".join(row.marks) for row in rows], words=True)
    if any(row.verdict for row in rows):
        judged = [row.verdict for row in rows]
        yield Column("against", [verdict.b if verdict else "" for verdict in judged], words=True)
        p = [verdict.corrected if verdict else None for verdict in judged]
        yield Column("p (Holm)", ["" for _ in rows], values=p)
        words = [(verdict.verdict or "open") if verdict else "" for verdict in judged]
        yield Column("verdict", words, words=True)
