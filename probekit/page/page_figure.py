"""A picture of the page: its numbers, and how they are drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Cell = str | float | int | None
Kind = Literal["curves", "cells"]
Section = Literal["depth", "amount", "weights", "overthinking", "exit"]

CURVE_COLUMNS = ("low", "high", "seeds", "note")
"""What a row of a picture of curves holds after its curve, x and y: the ends of the 95 % interval,
what it is a mean over, and what is said of the point."""

_DIGITS = 6  # significant ones: more than any picture shows, and a third of the bytes


@dataclass(frozen=True, kw_only=True)
class PageFigure:
    """One picture, whose numbers can be read and copied as a table.

    Attributes:
        section: the part of the page where it stands.
        kind: ``curves`` (a row is a point: curve, x, y, `CURVE_COLUMNS`) or ``cells`` (a row is a
            cell of a heatmap: row, layer, value, what colours it, half width, seeds).
        title: what it shows.
        caption: what its numbers are.
        columns: headings of the numbers, units included.
        rows: the numbers.
        log: whether x goes by doublings.
        dashed: curves that others are held against.
        points: curves of single points.
        limits: the lowest and the highest that y can be, where intervals that reach beyond are cut
            as they are drawn; None where there is no such end.
    """

    section: Section
    kind: Kind
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    log: bool = False
    dashed: Sequence[str] = field(default_factory=list)
    points: Sequence[str] = field(default_factory=list)
    limits: tuple[float | None, float | None] = (None, None)

    def to_json(self) -> Mapping[str, Any]:
        """Return it as the page reads it, floats rounded."""
        return asdict(self) | {"rows": [[rounded(cell) for cell in row] for row in self.rows]}


def rounded(value: Cell) -> Cell:
    """Return a float with the digits that a picture needs; all else as it is."""
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
