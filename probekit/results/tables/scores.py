"""The table of scores: a row per setting, with the options that differ and the scores."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from probekit.base.registry import choose
from probekit.base.selection import FIXED
from probekit.metrics import scale_of
from probekit.results.summaries.diagnosis import MARK
from probekit.results.summaries.grouping import naming
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.text_layout import NOTHING, Column, interval_cells, marked
from probekit.results.summaries.wording import OPTIONS, value_text
from probekit.results.tables.styles import LAYOUTS, STYLES, Style
from probekit.results.tables.summary import ALWAYS, BESIDE, Row


def table(rows: Sequence[Row], style: Style = "text") -> str:
    """Return rows as a table: the options that differ, seeds, scores, parameters and seconds.

    Scores are percent (perplexity: raw) with the half width of their 95 % interval over seeds; an
    asterisk follows those of runs with a trouble, which ``notes`` of the records says.

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
    return LAYOUTS[style]([*_option_columns(rows), *_result_columns(rows)])


def _option_columns(rows: Sequence[Row]) -> list[Column]:
    names = list(rows[0].options) if rows else list(ALWAYS)
    differing = naming(
        [row.options for row in rows],
        lambda name, _: [other for other in OPTIONS[name].settled_by if other in names],
    )
    shown = {*_always(rows), *differing}
    columns = [
        Column(
            name.replace("_", " "),
            [_option_cell(name, row.options) for row in rows],
            words=not OPTIONS[name].number,
        )
        for name in names
        if name in shown
    ]
    place = next((n for n, column in enumerate(columns, 1) if column.heading == "lr"), len(columns))
    return [*columns[:place], *_rate_column(rows), *columns[place:]]


def _rate_column(rows: Sequence[Row]) -> list[Column]:
    """Return where the rates are from, unless none was searched or published."""
    found = [row.rate_from for row in rows]
    if set(found) <= {None, FIXED}:
        return []
    return [Column("rate", [one or NOTHING for one in found], words=True)]


def _always(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns that every table has: head, and how much of train was read."""
    fractions = [row.options.get("fraction") is not None for row in rows]
    if not any(fractions):
        return ALWAYS
    return ("head", "fraction") if all(fractions) else (*ALWAYS, "fraction")


def _option_cell(name: str, options: Mapping[str, Any]) -> str:
    """Return an option's value; a run on a fraction has no shots, and one of shots no fraction."""
    other = {"shots": "fraction", "fraction": "shots"}.get(name)
    by_the_other = options[name] is None and other and options.get(other) is not None
    return NOTHING if by_the_other else value_text(name, options[name])


def _result_columns(rows: Sequence[Row]) -> list[Column]:
    return [
        Column("seeds", [str(row.n) for row in rows]),
        *_dev_columns(rows),
        Column("test", _scores(rows, [row.test_score for row in rows])),
        *_beside_columns(rows),
        *_diverged_column(rows),
        Column("params", [f"{row.n_params:,}" for row in rows]),
        Column("seconds", [f"{row.train_seconds:.1f}" for row in rows]),
    ]


def _dev_columns(rows: Sequence[Row]) -> list[Column]:
    """Return the best and the last dev score, or one column where no run has two."""
    best = _scores(rows, [row.eval_score for row in rows])
    if not any(row.two_scores for row in rows):
        return [Column("dev", best)]
    last = _scores(rows, [row.eval_last for row in rows])
    return [Column("dev best", best), Column("dev last", last)]


def _diverged_column(rows: Sequence[Row]) -> list[Column]:
    """Return how many runs diverged, where some did."""
    if not any(row.diverged for row in rows):
        return []
    return [Column("diverged", [f"{row.diverged} of {row.n}" for row in rows])]


def _beside_columns(rows: Sequence[Row]) -> list[Column]:
    """Return the other scores, where some row has them."""
    columns = []
    for name, (title, factor) in BESIDE.items():
        values = [row.beside.get(name) for row in rows]
        if any(values):
            shown = [value and value.scaled(factor) for value in values]
            columns.append(Column(title, interval_cells(shown, 2)))
    return columns


def _scores(rows: Sequence[Row], values: Sequence[Interval | None]) -> list[str]:
    factors = [scale_of(row.metric).factor for row in rows]
    pairs = zip(values, factors, strict=True)
    cells = interval_cells([value and value.scaled(factor) for value, factor in pairs], 2)
    return marked(cells, [MARK if row.marks else "" for row in rows])
