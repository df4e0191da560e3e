"""A pivot: one score, with the values of an option as columns and all other options as rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.metrics import Scale, scale_of
from probekit.results.comparison.pairwise import ARROWS, Verdicts
from probekit.results.record import Record
from probekit.results.summaries.best_options import CHOSE, BestOptions
from probekit.results.summaries.diagnosis import MARK, marks
from probekit.results.summaries.grouping import distinguishing, grouped, key_of, varying
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.scored import SCORE_OF, Scored, mean_score
from probekit.results.summaries.text_layout import Column, interval_cells, marked
from probekit.results.summaries.typeset import Style, laid_out
from probekit.results.summaries.wording import OPTIONS, option_text, options_text, value_text


@dataclass(frozen=True)
class _Cell:
    """One score of a pivot: its mean over seeds as recorded, and what is said of it."""

    score: Interval
    scale: Scale
    marks: tuple[str, ...]
    verdict: str | None

    @property
    def mark(self) -> str:
        """What follows the score."""
        return MARK * bool(self.marks) + ARROWS[self.verdict]


def pivot(
    records: Sequence[Record],
    columns: str,
    *,
    split: Scored,
    style: Style = "text",
    judged: Verdicts | None = None,
    best: BestOptions | None = None,
) -> str:
    """Return the scores on a split with a column for every value of an option.

    Rows are told apart by head and by whatever else differs; what follows from these and from the
    column, such as a rate that was searched for each number of shots, makes no rows.

    Args:
        records: any that have a score on the split.
        columns: the option.
        split: ``dev`` or ``test``.
        style: as for ``table``; ``jsonl`` gives one object per cell.
        judged: verdicts of the settings, whose marks are shown.
        best: what dev chose, which is marked where dev is shown.

    Raises:
        UnknownNameError: records have no such option.
        RecordError: all records have the same value, or a cell would average over more than seeds.
    """
    choose("option", columns, OPTIONS)
    if not varying(records, [columns]):
        chosen = ", which --best-on dev chose" if best and columns in best.by else ""
        raise RecordError(
            f"--columns {columns}: {columns.replace('_', ' ')} is "
            f"{value_text(columns, key_of(records[0], [columns])[0])!r} in each of {len(records)} "
            f"records{chosen}, so that there is nothing to lay side by side. Options that differ: "
            f"{', '.join(_usable(records)) or 'none'}."
        )
    names = ["head"] * (columns != "head")
    names += distinguishing(records, [*names, columns])
    groups = grouped(records, [*names, columns])
    cells = {
        key: _cell(own, dict(zip([*names, columns], key, strict=True)), split, judged, best)
        for key, own in groups.items()
    }
    rows, values = list(dict.fromkeys(key[:-1] for key in cells)), _values(records, columns)
    return laid_out(
        [*_row_columns(rows, names), *_score_columns(cells, rows, values, columns)],
        [_to_json(key, cell, [*names, columns], split) for key, cell in cells.items()],
        style,
    )


def _usable(records: Sequence[Record]) -> list[str]:
    """Return the options that differ and do not follow from others."""
    return ["head"] * bool(varying(records, ["head"])) + distinguishing(records, ["head"])


def _values(records: Sequence[Record], name: str) -> list[Any]:
    return [value for (value,) in grouped(records, [name])]


def _cell(
    own: Sequence[Record],
    options: Mapping[str, Any],
    split: Scored,
    judged: Verdicts | None,
    best: BestOptions | None,
) -> _Cell:
    setting = key_of(own[0], tuple(OPTIONS))
    chose = split == "dev" and best is not None and best.chose(setting)
    verdict = judged and judged.rows.get(setting)
    return _Cell(
        score=mean_score(own, SCORE_OF[split], options_text(options)),
        scale=scale_of(own[0].metric),
        marks=marks(own) + (CHOSE,) * chose,
        verdict=verdict.verdict if verdict else None,
    )


def _row_columns(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> list[Column]:
    return [
        Column(
            name.replace("_", " "),
            [value_text(name, row[place]) for row in rows],
            words=not OPTIONS[name].number,
        )
        for place, name in enumerate(names)
    ]


def _score_columns(
    cells: Mapping[tuple[Any, ...], _Cell],
    rows: Sequence[tuple[Any, ...]],
    values: Sequence[Any],
    name: str,
) -> list[Column]:
    columns = []
    for value in values:
        found = [cells.get((*row, value)) for row in rows]
        scaled = [one.score.scaled(one.scale.factor) if one else None for one in found]
        decimals = [one.scale.decimals if one else 0 for one in found]
        signs = [one.mark if one else "" for one in found]
        texts = marked(interval_cells(scaled, decimals), signs)
        columns.append(Column(option_text(name, value), texts, values=scaled))
    return columns


def _to_json(
    key: tuple[Any, ...], cell: _Cell, names: Sequence[str], split: Scored
) -> dict[str, Any]:
    """Return a cell: its options, and its score as in the records."""
    options = dict(zip(names, key, strict=True))
    said = {"split": split, "marks": list(cell.marks), "verdict": cell.verdict}
    return options | said | asdict(cell.score)
