"""Tables of results: records grouped over seeds, as text, Markdown or JSON lines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from probekit.errors import RecordError
from probekit.metrics.scale import scale_of
from probekit.registry import choose
from probekit.results.columns import NOTHING, Column, interval_cells, markdown_table, text_table
from probekit.results.comparison import Comparison
from probekit.results.groups import OPTIONS, check_seeds, follows, grouped, series
from probekit.results.interval import Interval, interval
from probekit.results.names import layer_text, metric_text, option_text, options_text, value_text
from probekit.results.record import Record
from probekit.results.scored import mean_score
from probekit.results.weights import lost_weights, mean_weights, with_weights

Style = Literal["text", "markdown", "jsonl"]
Score = Literal["eval_score", "eval_last", "test_score"]

_SCORE_TEXT = {"eval_score": "dev best", "eval_last": "dev last", "test_score": "test"}
_LAYOUTS = {"text": text_table, "markdown": markdown_table}
STYLES: dict[str, Style] = {"text": "text", "markdown": "markdown", "jsonl": "jsonl"}
_ALWAYS = ("head", "shots")
_NUMBERS = ("shots", "fraction", "depth", "epochs", "evals", "lr", "mix_lr", "batch_size")
_SETTLED_BY = {
    "layers": ("model", "head", "depth"),
    "entry": ("model", "task"),
    "labels_fingerprint": ("task", "label"),
    "metric": ("task", "label"),
    "protocol": ("shots", "fraction"),
    "decoder": ("head",),
    "options": ("head", "decoder"),
    "pooling": ("model", "task", "label"),
    "epochs": ("head",),
    "evals": ("head",),
    "batch_size": ("head",),
    "optimizer": ("head",),
}
"""Options that a table leaves out where those on the right settle them."""

_BESIDE = {
    "accuracy": ("accuracy", 100),
    "control/accuracy": ("control accuracy", 100),
    "selectivity": ("selectivity", 100),
    "bits per label": ("bits per label", 1),
    "compression": ("compression", 1),
}
"""What baselines add to a record's scores: title of the column, and factor."""


@dataclass(frozen=True, kw_only=True)
class Row:
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
        beside: scores of baselines that all the records hold, such as ``selectivity``.
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
    beside: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of seeds."""
        return len(self.seeds)

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON values."""
        return asdict(self)


def summarise(records: Sequence[Record], by: Sequence[str] | None = None) -> list[Row]:
    """Group records over seeds.

    Args:
        records: any records.
        by: options that make a row; all of them when None.

    Returns:
        One row per combination of values, in a fixed order (baselines first, shots ascending).

    Raises:
        RecordError: there are no records, or a row would average over more than seeds.
        OptionError: ``by`` names no option of a record.
    """
    _require_records(records)
    names = OPTIONS if by is None else tuple(by)
    return [
        _row(group, dict(zip(names, key, strict=True)))
        for key, group in grouped(records, names).items()
    ]


def _require_records(records: Sequence[Record]) -> None:
    """Refuse an empty list of records, saying how to make some."""
    if not records:
        raise RecordError("no records; run `probekit train` or `probekit sweep` first.")


def _row(group: Sequence[Record], options: dict[str, Any]) -> Row:
    what = options_text({name: options[name] for name in _ALWAYS if name in options})
    what = what or "all records"
    if len(metrics := sorted({record.metric for record in group})) > 1:
        raise RecordError(f"{what}: cannot average {' and '.join(metrics)}; group by task, label.")
    check_seeds(group, what)
    tests = [record.test_score for record in group if record.test_score is not None]
    return Row(
        options=options,
        metric=metrics[0],
        seeds=tuple(sorted(record.seed for record in group)),
        eval_score=interval(record.eval_score for record in group),
        eval_last=interval(record.eval_last for record in group),
        test_score=interval(tests) if tests else None,
        n_params=round(interval(record.n_params for record in group).mean),
        train_seconds=interval(record.train_seconds for record in group).mean,
        diverged=sum(record.diverged for record in group),
        beside={
            name: interval(record.scores[name] for record in group)
            for name in _BESIDE
            if all(name in record.scores for record in group)
        },
    )


def table(rows: Sequence[Row], style: Style = "text") -> str:
    """Return rows as a table: the options that differ, seeds, scores, parameters and seconds.

    Scores are percent (perplexity: raw) with the half width of their 95 % interval over seeds.

    Args:
        rows: what ``summarise`` returned.
        style: ``text`` (aligned for a terminal), ``markdown``, or ``jsonl`` (one JSON object per
            row, scores as in the records).

    Raises:
        UnknownNameError: there is no such style.
    """
    choose("table style", style, STYLES)
    if style == "jsonl":
        return "".join(json.dumps(row.to_json(), ensure_ascii=False) + "\n" for row in rows)
    return _LAYOUTS[style]([*_option_columns(rows), *_result_columns(rows)])


def caption(rows: Sequence[Row], score: Score | None = None) -> str:
    """Return one line that says what the scores of a table are, and what all its rows share.

    Args:
        rows: what ``summarise`` returned.
        score: the score, where the table shows only one, as ``depth_table`` does.
    """
    names = {metric_text(row.metric, scale_of(row.metric).percent) for row in rows}
    which = f"{_SCORE_TEXT[score]} " if score else ""
    scores = f"{_shared_text(rows)}{which}{' or '.join(sorted(names))}"
    return f"{scores}; {_over_seeds(rows)}"


def weights_caption(records: Sequence[Record], raw: bool = False) -> str:
    """Return one line that says what the weights of a table are.

    Args:
        records: as for ``weights_table``.
        raw: weights before the softmax.
    """
    held = with_weights(records, raw)
    rows = summarise([*held, *lost_weights(records, held)])
    which = "before" if raw else "after"
    return f"{_shared_text(rows)}weight of each layer {which} the softmax; {_over_seeds(rows)}"


def _over_seeds(rows: Sequence[Row]) -> str:
    diverged = sum(row.diverged for row in rows)
    note = f" {diverged} of {sum(row.n for row in rows)} runs diverged." if diverged else ""
    if all(row.n == 1 for row in rows):
        return f"one seed, hence no interval.{note}"
    return f"mean ± half width of the 95 % interval over seeds (Student's t).{note}"


def _shared_text(rows: Sequence[Row]) -> str:
    """Return task, label, decoder and pooling where all rows share them, with a colon."""
    task, label, decoder, pooling = (
        _shared(name, rows) for name in ("task", "label", "decoder", "pooling")
    )
    named = bool(task and label) and not label[0].isdigit()  # a column of a user's file: 2
    parts = [
        f"{task} {label}" if named else task,
        f"label {label}" if label and not named else None,
        "control labels, random by word type" if _are_control(rows) else None,
        decoder and f"decoder {decoder}",
        pooling and option_text("pooling", pooling),
    ]
    text = ", ".join(part for part in parts if part)
    return f"{text}: " if text else ""


def _shared(name: str, rows: Sequence[Row]) -> Any:
    """Return the value of an option that all rows share, if any; a guess has no decoder."""
    values = {row.options.get(name) for row in rows}
    if name == "decoder" and len(values) > 1:
        values.discard("none")
    return values.pop() if len(values) == 1 else None


def _are_control(rows: Sequence[Row]) -> bool:
    """Say whether all rows are runs on control labels, whose label is ``ner (control 0)``."""
    return bool(rows) and all(" (control " in str(row.options.get("label")) for row in rows)


def _option_columns(rows: Sequence[Row]) -> list[Column]:
    names = list(rows[0].options) if rows else list(_ALWAYS)
    varies = [name for name in names if len({row.options[name] for row in rows}) > 1]
    always = _always(rows)
    return [
        Column(
            name.replace("_", " "),
            [_option_cell(name, row.options) for row in rows],
            words=name not in _NUMBERS,
        )
        for name in names
        if name in always or (name in varies and not _is_settled(name, rows))
    ]


def _always(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns that every table has: head, and how much of train was read."""
    fractions = [row.options.get("fraction") is not None for row in rows]
    if not any(fractions):
        return _ALWAYS
    return ("head", "fraction") if all(fractions) else (*_ALWAYS, "fraction")


def _option_cell(name: str, options: Mapping[str, Any]) -> str:
    """Return an option's value; a run on a fraction has no shots, and one of shots no fraction."""
    other = {"shots": "fraction", "fraction": "shots"}.get(name)
    by_the_other = options[name] is None and other and options.get(other) is not None
    return NOTHING if by_the_other else value_text(name, options[name])


def _is_settled(name: str, rows: Sequence[Row]) -> bool:
    by = [other for other in _SETTLED_BY.get(name, ()) if rows and other in rows[0].options]
    pairs = ((tuple(row.options[other] for other in by), row.options[name]) for row in rows)
    return bool(by) and follows(pairs)


def _result_columns(rows: Sequence[Row]) -> list[Column]:
    return [
        Column("seeds", [str(row.n) for row in rows]),
        Column("dev best", _scores(rows, [row.eval_score for row in rows])),
        Column("dev last", _scores(rows, [row.eval_last for row in rows])),
        Column("test", _scores(rows, [row.test_score for row in rows])),
        *_beside_columns(rows),
        *_diverged_column(rows),
        Column("params", [f"{row.n_params:,}" for row in rows]),
        Column("seconds", [f"{row.train_seconds:.1f}" for row in rows]),
    ]


def _diverged_column(rows: Sequence[Row]) -> list[Column]:
    """Return how many runs diverged, where some did."""
    if not any(row.diverged for row in rows):
        return []
    return [Column("diverged", [f"{row.diverged} of {row.n}" for row in rows])]


def _beside_columns(rows: Sequence[Row]) -> list[Column]:
    """Return what baselines add, where some row has it."""
    columns = []
    for name, (title, factor) in _BESIDE.items():
        values = [row.beside.get(name) for row in rows]
        if any(values):
            shown = [value and value.scaled(factor) for value in values]
            columns.append(Column(title, interval_cells(shown, 2)))
    return columns


def _scores(rows: Sequence[Row], values: Sequence[Interval | None]) -> list[str]:
    factors = [scale_of(row.metric).factor for row in rows]
    pairs = zip(values, factors, strict=True)
    return interval_cells([value and value.scaled(factor) for value, factor in pairs], 2)


def depth_table(
    records: Sequence[Record], score: Score = "eval_score", style: Style = "text"
) -> str:
    """Return scores by depth: layers as rows (``0 = emb``), heads and their options as columns.

    The heading of the layers says which score it is; ``caption(rows, score)`` does as well.

    Args:
        records: records; those that are not of a truncated depth are left out.
        score: which score; percent (perplexity: raw) with the half width of its 95 % interval
            over seeds.
        style: as for ``table``; ``jsonl`` gives one object per depth and column.

    Raises:
        RecordError: no record has a depth, or a cell would average over more than seeds.
    """
    records = [r for r in records if r.depth is not None and getattr(r, score) is not None]
    if not records:
        raise RecordError(
            f"no records with a depth and a {_SCORE_TEXT[score]} score; run `probekit depth` first."
        )
    named = series(records, given=["depth"])
    columns = {
        name: {
            depth: mean_score(group, score, f"{name}, depth {depth}")
            for (depth,), group in grouped(members, ["depth"]).items()
        }
        for name, members in named.items()
    }
    factors = [scale_of(members[0].metric).factor for members in named.values()]
    heading = f"layer, {_SCORE_TEXT[score]}"
    return _layer_table(columns, style, decimals=2, factors=factors, heading=heading)


def weights_table(records: Sequence[Record], raw: bool = False, style: Style = "text") -> str:
    """Return the weight of every layer: layers as rows (``0 = emb``), heads as columns.

    Args:
        records: records; those of heads without weights are left out.
        raw: weights before the softmax.
        style: as for ``table``; ``jsonl`` gives one object per layer and column.

    Raises:
        RecordError: no record has such weights, or a column would average over more than seeds.
    """
    columns = {
        name: mean_weights(members, raw, name)
        for name, members in series(with_weights(records, raw)).items()
    }
    return _layer_table(columns, style, decimals=3, factors=[1.0] * len(columns))


def _layer_table(
    columns: Mapping[str, Mapping[int, Interval]],
    style: Style,
    decimals: int,
    factors: Sequence[float],
    heading: str = "layer",
) -> str:
    choose("table style", style, STYLES)
    layers = sorted({layer for column in columns.values() for layer in column})
    if style == "jsonl":
        return "".join(
            json.dumps({"series": name, "layer": layer, **asdict(value)}, ensure_ascii=False) + "\n"
            for name, column in columns.items()
            for layer, value in sorted(column.items())
        )
    shown = [Column(heading, [layer_text(layer) for layer in layers], words=True)]
    for (name, column), factor in zip(columns.items(), factors, strict=True):
        values = [column[n].scaled(factor) if n in column else None for n in layers]
        shown.append(Column(name, interval_cells(values, decimals)))
    return _LAYOUTS[style](shown)


def comparison_table(found: Comparison) -> str:
    """Return the scores of two compared runs, their difference, and what can be said of it."""
    scale = scale_of(found.metric)
    scores = [found.score_a, found.score_b, found.difference]
    columns = [
        Column("", [found.a, found.b, "difference"], words=True),
        Column(
            f"{found.split} {metric_text(found.metric, scale.percent)}",
            [f"{score * scale.factor:.2f}" for score in scores],
        ),
    ]
    low, high = (f"{end * scale.factor:+.2f}" for end in (found.low, found.high))
    lines = [
        f"95 % interval of the difference: {low} to {high}, p = {found.p:.2g} (paired bootstrap, "
        f"{found.samples:,} samples of {found.n_sentences:,} sentences)",
        _seeds_text(found.over_seeds.scaled(scale.factor)),
    ]
    return text_table(columns) + "\n" + "\n".join(lines)


def _seeds_text(over: Interval) -> str:
    if over.half is None:
        return "one seed each: how much another seed would change is not known"
    return (
        f"over {over.n} paired seeds: {over.mean:+.2f} ± {over.half:.2f} "
        "(95 % interval, Student's t)"
    )
