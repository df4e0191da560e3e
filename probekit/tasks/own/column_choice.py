"""Choose the word and label columns of the user's own file, by name or by index."""

from collections.abc import Sequence
from dataclasses import dataclass

from probekit.base.registry import choose
from probekit.errors import DataError, OptionError
from probekit.tasks.own.text_options import TextOptions

# Names that columns of words usually have, in any case of letters.
LISTS_OF_WORDS = ("tokens", "words")
WORDS = (*LISTS_OF_WORDS, "token", "word", "form", "text")


@dataclass(frozen=True, kw_only=True)
class Choice(TextOptions):
    """How one file is read: what the user typed, and his label column.

    Attributes:
        label: the label column, by name or index.
        optional: a file of sentences without the label column is one without labels.
        texts_alone: labels are not read; ``label`` says which column is no text.
    """

    label: str | None = None
    optional: bool = False
    texts_alone: bool = False


def is_index(name: str) -> bool:
    """Return whether ``name`` is an integer ("0", "-1")."""
    return name.lstrip("-").isascii() and name.lstrip("-").isdigit()


def names_header(choice: Choice, cells: Sequence[str]) -> bool:
    """Say whether the user's choice names a cell of a table's first row, which is a header then.

    A number is a position, even where a cell of the first example is the same number, unless the
    row numbers its columns.
    """
    texts = (choice.text or "").split(",")
    asked = {choice.label, choice.sentences, choice.text, *texts} - {None, ""}
    numbered = list(cells) == [str(place) for place in range(len(cells))]
    return any(name in cells for name in asked if name and (numbered or not is_index(name)))


def place_of(where: str, option: str, wanted: str, names: Sequence[str]) -> int:
    """Return the position of the column that ``wanted`` names.

    Args:
        where: the file, for messages.
        option: "--text" or "--label", for messages.
        wanted: a name, or a position counted from 0 (from the end if negative).
        names: the file's columns.

    Raises:
        UnknownNameError: no column has that name.
        OptionError: the position is outside the file's columns.
    """
    if wanted in names:
        return names.index(wanted)
    if not is_index(wanted):
        choose(f"{option} column of {where}", wanted, dict.fromkeys(names))
    place = int(wanted)
    if not -len(names) <= place < len(names):
        raise OptionError(
            f"{option} {wanted}: {where} has {len(names)} columns; expected "
            f"{-len(names)} to {len(names) - 1}."
        )
    return place % len(names)


def only_label(where: str, candidates: Sequence[str]) -> str | None:
    """Return the one label column, None where there is none.

    Raises:
        OptionError: there are several; the message lists them.
    """
    if len(candidates) > 1:
        raise OptionError(
            f"{where} has several label columns: {', '.join(candidates)}. Choose one with --label."
        )
    return candidates[0] if candidates else None


def only_text(where: str, candidates: Sequence[str]) -> str:
    """Return the column with the words: the only candidate, or the only usual name among them.

    Raises:
        OptionError: several could be it; the message lists them.
        DataError: none could.
    """
    if not candidates:
        raise DataError(f"{where} has no column with a list of words; expected one (tokens).")
    known = [name for name in candidates if name.lower() in LISTS_OF_WORDS]
    if len(candidates) == 1 or len(known) == 1:
        return (known or list(candidates))[0]
    raise OptionError(
        f"{where}: which column holds the words? {', '.join(candidates)}. Choose one with --text."
    )
