"""What a file of records holds: its columns, one value per example."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from probekit.errors import DataError
from probekit.tasks.label_names import trim
from probekit.tasks.sentences import Sentence, Sentences, origin_of


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The examples of a file by column.

    Attributes:
        where: the file (or the Hub repository), for messages.
        origin: the same as the manifest names it.
        lines: the line or row of each example.
        values: column to one value per example (None where it is missing).
        unit: what ``lines`` counts.
    """

    where: str
    origin: str
    lines: Sequence[int]
    values: Mapping[str, Sequence[Any]]
    unit: Literal["line", "row"] = "line"

    def __post_init__(self) -> None:
        names = trim_names(self.where, self.values)
        object.__setattr__(self, "values", dict(zip(names, self.values.values(), strict=True)))

    @classmethod
    def of_file(
        cls, path: Path, values: Mapping[str, Sequence[Any]], lines: Sequence[int] | None = None
    ) -> Self:
        """Return the columns of one file; without ``lines`` its rows are counted."""
        where, origin = str(path), origin_of(path)
        if lines is not None:
            return cls(where=where, origin=origin, lines=lines, values=values)
        rows = range(1, len(next(iter(values.values()), ())) + 1)
        return cls(where=where, origin=origin, lines=rows, values=values, unit="row")

    def sentences(self, found: Iterable[Sentence]) -> Sentences:
        """Return what a reader made of the examples."""
        return Sentences(
            sentences=tuple(found), where=self.where, origin=self.origin, unit=self.unit
        )

    def id_of(self, number: int) -> str | None:
        """Return the id that the file gives an example, if any."""
        value = self.values["id"][number] if "id" in self.values else None
        return str(value) or None if isinstance(value, str | int) else None

    def place(self, number: int) -> str:
        """Name the file and the line of an example, for messages."""
        return f"{self.where}, {self.unit} {self.lines[number]}"


def trim_names(where: str, names: Iterable[str]) -> list[str]:
    """Return the names of columns without blanks around them.

    Args:
        where: the file, and the line where there is one, for the message.
        names: as the file gives them.

    Raises:
        DataError: two columns have one name.
    """
    found = [trim(name) for name in names]
    twice = next((name for name in found if name and found.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where}: two columns are called {twice!r}; rename one.")
    return found
