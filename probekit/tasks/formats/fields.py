"""What a file of records holds: its columns, one value per example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from probekit.tasks.formats.blanks import trim_names


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The examples of a file by column.

    Attributes:
        where: the file (or the Hub repository), for messages.
        origin: the same as the manifest names it.
        unit: what ``lines`` counts.
        lines: the line or row of each example.
        values: column to one value per example (None where it is missing).
    """

    where: str
    origin: str
    unit: Literal["line", "row"]
    lines: Sequence[int]
    values: Mapping[str, Sequence[Any]]

    def __post_init__(self) -> None:
        names = trim_names(self.where, self.values)
        object.__setattr__(self, "values", dict(zip(names, self.values.values(), strict=True)))

    def id_of(self, number: int) -> str | None:
        """Return the id that the file gives an example, if any."""
        value = self.values["id"][number] if "id" in self.values else None
        return str(value) or None if isinstance(value, str | int) else None

    def place(self, number: int) -> str:
        """Name the file and the line of an example, for messages."""
        return f"{self.where}, {self.unit} {self.lines[number]}"
