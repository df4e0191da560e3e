"""A pivot: one score, with the values of an option as columns and all other options as rows."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from probekit.base.registry import choose
from probekit.errors import RecordError
from probekit.metrics import scale_of
from probekit.results.comparison.pairwise import ARROWS, Verdicts
from probekit.results.record import Record
from probekit.results.summaries.best_options import CHOSE, BestOptions
from probekit.results.summaries.diagnosis import MARK, marks, notes
from probekit.results.summaries.grouping import Key, distinguishing, grouped, key_of, varying
from probekit.results.summaries.scored import SCORE_OF, Scored, mean_score, shown
from probekit.results.summaries.typeset import Cell, Table, score_column
from probekit.results.summaries.wording import OPTIONS, option_text, options_text, value_text
from probekit.results.tables.scores import caption, option_column, said_lines, summarise


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
    cells: dict[Key, Cell] = {}
    objects: list[dict[str, Any]] = []
    for key, members in grouped(records, every).items():
        options = dict(zip(every, key, strict=True))
        setting = key_of(members[0], tuple(OPTIONS))
        chose = split == "dev" and best is not None and best.chose(setting)
        troubles = [*marks(members), *[CHOSE] * chose]
        judgement = judged.rows.get(setting) if judged else None
        verdict = judgement.verdict if judgement else None
        score = mean_score(members, SCORE_OF[split], options_text(options))
        mark = MARK * bool(troubles) + ARROWS[verdict]
        cells[key] = Cell(score, scale_of(members[0].metric), mark)
        said = {"split": split, "marks": troubles, "verdict": verdict}
        objects.append(options | said | asdict(score))
    rows = list(dict.fromkeys(key[:-1] for key in cells))
    options_of_rows = [dict(zip(names, row, strict=True)) for row in rows]
    table = [option_column(name, options_of_rows) for name in names]
    for (value,) in grouped(records, [columns]):
        column = [cells.get((*row, value)) for row in rows]
        table.append(score_column(option_text(columns, value), column))
    lines = [*said_lines(best, judged, split == "dev"), *notes(records)]
    return Table(table, lines, f"{split}; {caption(summarise(records))}", objects)


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
