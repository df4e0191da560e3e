"""Tables of scores for the page: a row per setting, with intervals, marks and what they mean."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from probekit.errors import ProbekitError
from probekit.page.score_curves import task_title
from probekit.results import tables
from probekit.results.comparison import Verdicts, verdicts
from probekit.results.record import Record
from probekit.results.summaries.baseline_scores import beside_heads, without_baselines
from probekit.results.summaries.grouping import full_depth, grouped
from probekit.results.summaries.text_layout import NOTHING, Column
from probekit.results.summaries.wording import OPTIONS

_SAME = ("task", "label", "metric")

_HOW = {name.replace("_", " ") for name, one in OPTIONS.items() if one.origin in ("head", "steps")}
"""Headings of how heads were trained: they come last, so that the scores are seen first."""


@dataclass(frozen=True, kw_only=True)
class ScoreTable:
    """One table of scores.

    Attributes:
        title: whose scores.
        headings: of its columns.
        words: which of them hold words, which stand left.
        rows: its cells as text.
        notes: what marks mean, what is wrong, and what the numbers are.
        csv: all of it as plain numbers.
    """

    title: str
    headings: Sequence[str]
    words: Sequence[bool]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    csv: str

    def to_json(self) -> dict[str, Any]:
        """Return it as the page reads it."""
        return asdict(self)


def score_tables(
    records: Sequence[Record], against: str | None, split: str | None, samples: int
) -> Iterator[ScoreTable]:
    """Yield a table per task of what was trained on all layers, or of depths where all is.

    Args:
        records: any.
        against: what rows are compared with: a head, or conditions; None is ``last``, of heads on
            all layers alone: what depths differ by is said of their curves.
        split: of the comparison with the reference; None is test where all have one, else dev.
        samples: bootstrap samples of that comparison.
    """
    for group in grouped(records, _SAME).values():
        shown = beside_heads(full_depth(group))
        rows = tables.summarise(shown)
        of_depths = against is None and any(record.depth is not None for record in shown)
        wanted = len(rows) > 1 and not of_depths
        judged = _judged(shown, against, split, samples) if wanted else None
        if isinstance(judged, Verdicts):
            rows = tables.with_verdicts(rows, judged)
        said = judged.lines if isinstance(judged, Verdicts) else [judged] if judged else []
        notes = [*tables.footnotes(shown, more=said).splitlines(), tables.caption(rows)]
        columns = [one for one in tables.score_columns(rows) if not _is_empty(one)]
        columns.sort(key=lambda one: one.heading in _HOW)
        first = group[0]
        yield ScoreTable(
            title=f"{first.task}, {first.label}" if first.label else task_title(first),
            headings=[column.heading for column in columns],
            words=[column.words for column in columns],
            rows=[
                [cell.strip() for cell in row]
                for row in zip(*(column.cells for column in columns), strict=True)
            ],
            notes=notes,
            csv=tables.table(rows, "csv"),
        )


def _is_empty(column: Column) -> bool:
    return all(cell.strip() == NOTHING for cell in column.cells)


def _judged(
    records: Sequence[Record], against: str | None, split: str | None, samples: int
) -> Verdicts | str:
    """Return the verdicts against the reference, or why there are none."""
    try:
        return verdicts(without_baselines(records), against, split=split, samples=samples)
    except ProbekitError as error:
        return f"no row is compared with a reference: {error}"
