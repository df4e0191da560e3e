"""What the user types to say how his own data is read."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How the user's own data is read; None leaves it to what the files show.

    Attributes:
        kind: what is labelled (``--kind``); tagging if None.
        text: the text column by name or index, two of them for a pair as "A,B" (``--text``).
        separator: what divides the columns of a table: one character, or its name
            (``--separator``).
        encoding: the encoding of text files, by a name that Python knows (``--encoding``).
        sentences: the column of sentence ids in a table of words, by name or index
            (``--sentences``).
    """

    kind: str | None = None
    text: str | None = None
    separator: str | None = None
    encoding: str | None = None
    sentences: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """What was typed, by the names above."""
        values = {field.name: getattr(self, field.name) for field in fields(TextOptions)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def typed(self) -> list[str]:
        """The words of the command line that say the same."""
        return [word for name, value in self.given.items() for word in (f"--{name}", value)]
