"""What the reader of a format hands on, before it is checked and becomes a split."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Sentence:
    """One text as a format's reader found it.

    Attributes:
        words: its words.
        labels: column to one label per word.
        lines: the line (or row) of each word, counted from 1, for messages.
        id: the id that the file gives, or None.
    """

    words: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]]
    lines: tuple[int, ...]
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """All texts of one source.

    Attributes:
        sentences: in the order of the source.
        where: the source as messages name it (a path or a Hub repository).
        origin: the source as the manifest names it.
        unit: what ``Sentence.lines`` counts.
    """

    sentences: tuple[Sentence, ...]
    where: str
    origin: str
    unit: Literal["line", "row"] = "line"


class Source(Protocol):
    """Finds and reads the text of one split."""

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read ``split`` from the folder ``data``, or from where the task lives by default."""
        ...
