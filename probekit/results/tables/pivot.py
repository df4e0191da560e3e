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
from probekit.results.summaries.diagnosis import MARK, marks, notes
from probekit.results.summaries.grouping import distinguishing, grouped, key_of, varying
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.scored import SCORE_OF, Scored, mean_score, shown
from probekit.results.summaries.typeset import Column, Table, interval_column
from probekit.results.summaries.wording import OPTIONS, option_text, options_text, value_text
from probekit.results.tables.scores import caption, option_column, said_lines, summarise


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
    split: Scored | None = None,
    judged: Verdicts | None = None,
    best: BestOptions | None = None,
) -> Table:
    """Return the scores on a split with a column for every value of an option.

    Rows are told apart by head and by whatever else differs; what follows from these and from the
    column, such as a rate that was searched for each number of shots, makes no rows. JSON lines
    have one object per cell.

    Args:
        records: any; those without a score on the split are left out.
        columns: the option.
        split: ``dev`` or ``test``; None is test where all have a score there, else dev.
        judged: verdicts of the settings, whose marks are shown.
        best: what dev chose, which is marked where dev is shown.

    Raises:
        UnknownNameError: records have no such option.
        RecordError: all records have the same value, or a cell would average over more than seeds.
    """
    records, split = shown(records, split)
    choose("option", columns, OPTIONS)
    if not varying(records, [columns]):
        raise RecordError(_nothing_beside(records, columns, best))
    names = ["head"] * (columns != "head")
    names += distinguishing(records, [*names, columns])
    every = [*names, columns]
    cells = {
        key: _cell(own, dict(zip(every, key, strict=True)), split, judged, best)
        for key, own in grouped(records, every).items()
    }
    rows = list(dict.fromkeys(key[:-1] for key in cells))
    options = [dict(zip(names, row, strict=True)) for row in rows]
    values = [value for (value,) in grouped(records, [columns])]
    return Table(
        [
            *(option_column(name, options) for name in names),
            *(_column(columns, one, [cells.get((*row, one)) for row in rows]) for one in values),
        ],
        notes=[*said_lines(best, judged, split == "dev"), *notes(records)],
        caption=f"{split}; {caption(summarise(records))}",
        objects=[
            dict(zip(every, key, strict=True))
            | {"split": split, "marks": list(cell.marks), "verdict": cell.verdict}
            | asdict(cell.score)
            for key, cell in cells.items()
        ],
    )


def _nothing_beside(records: Sequence[Record], columns: str, best: BestOptions | None) -> str:
    """Return that all records have one value of an option, and which options differ."""
    chosen = ", which --best-on dev chose" if best and columns in best.by else ""
    others = ["head"] * bool(varying(records, ["head"])) + distinguishing(records, ["head"])
    return (
        f"--columns {columns}: {columns.replace('_', ' ')} is "
        f"{value_text(columns, key_of(records[0], [columns])[0])!r} in each of {len(records)} "
        f"records{chosen}, so that there is nothing to lay side by side. Options that differ: "
        f"{', '.join(others) or 'none'}."
    )


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


def _column(name: str, value: Any, cells: Sequence[_Cell | None]) -> Column:
    scaled = [one.score.scaled(one.scale.factor) if one else None for one in cells]
    decimals = [one.scale.decimals if one else 0 for one in cells]
    signs = [one.mark if one else "" for one in cells]
    return interval_column(option_text(name, value), scaled, decimals, signs)
