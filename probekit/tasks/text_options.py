"""What the user types to say how his own data is read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from probekit.base.kinds import KINDS, Kind
from probekit.base.registry import flag
from probekit.errors import OptionError


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
        skip_unlabelled: leave out the texts without a label in a file where others have one
            (``--skip-unlabelled``).
    """

    kind: str | None = None
    text: str | None = None
    separator: str | None = None
    encoding: str | None = None
    sentences: str | None = None
    skip_unlabelled: bool = False

    @property
    def of_kind(self) -> Kind:
        """What is labelled, typed or not."""
        return KINDS[self.kind or "tagging"]

    @property
    def given(self) -> dict[str, Any]:
        """What was typed, by the names above."""
        values = {field.name: getattr(self, field.name) for field in fields(TextOptions)}
        return {name: value for name, value in values.items() if value}

    def or_as(self, read: Mapping[str, Any]) -> "TextOptions":
        """Return the options that were typed, and the others as an entry keeps them.

        Args:
            read: by name, of anybody's entry; other names are left out.
        """
        known = {field.name for field in fields(TextOptions)}
        kept = {name: value for name, value in read.items() if name in known}
        return TextOptions(**kept | self.given)

    def fits(self, read: Mapping[str, Any]) -> bool:
        """Say whether what was typed is no other way of reading than an entry keeps."""
        usual = {"kind": "tagging"}
        given = self.given.items()
        return all(read.get(name, usual.get(name, value)) == value for name, value in given)

    @property
    def typed(self) -> list[str]:
        """The words of the command line that say the same."""
        words = []
        for name, value in self.given.items():
            words += [flag(name)] if value is True else [flag(name), value]
        return words

    def refuse(self, names: Collection[str], where: str) -> None:
        """Refuse options that say nothing about what is read.

        Args:
            names: those options, by the names above.
            where: what is read, for the message.

        Raises:
            OptionError: one of them was typed.
        """
        for name in self.given:
            if name in names:
                raise OptionError(f"{flag(name)} says nothing about {where}; leave it out.")


@dataclass(frozen=True, kw_only=True)
class Choice(TextOptions):
    """How one file is read: what the user typed, and his label column.

    Attributes:
        label: the label column, by name or index.
        optional: a file of sentences without the label column is one without labels.
        texts_alone: labels are not read; ``label`` says which column is no text.
        group: the column of groups (``--group``), which holds no labels.
    """

    label: str | None = None
    optional: bool = False
    texts_alone: bool = False
    group: str | None = None
