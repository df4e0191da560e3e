"""A column of sentence ids in the user's own table of words: sentences end where it changes."""

import re
from collections.abc import Sequence
from itertools import pairwise

from probekit.errors import DataError
from probekit.tasks.column_choice import is_id, place_of
from probekit.tasks.formats.delimited import column_of
from probekit.tasks.formats.word_columns import Row
from probekit.tasks.text_options import Choice

NONE = "none"
"""Says that a table has no sentence ids, whatever a column looks like."""

# Names without blanks and signs, in small letters: "Sentence #" is "sentence".
_OF_SENTENCES = {"sentence", "sent", "sid"} | {
    f"{what}{how}"
    for what in ("sentence", "sent")
    for how in ("id", "ids", "idx", "index", "no", "nr", "num", "number", "key")
}
_OF_TEXTS = {"doc", "document", "docid", "documentid", "docidx", "docno", "articleid", "textid"}
_NUMBERED = re.compile(r".*\d")


def sentence_columns(
    where: str, choice: Choice, names: Sequence[str], rows: Sequence[Row], taken: int
) -> list[int]:
    """Return the columns at whose changes a sentence ends; none where there are no ids.

    They are what ``--sentences`` names ("none" for none), else columns called so ("sentence_id",
    "Sentence #"), with those of document ids, since sentences may be counted from 0 in each. A
    column called "id" or so is one if it says the same of two rows that follow each other.

    Args:
        where: the file, for messages.
        choice: what the user typed.
        names: the columns.
        rows: the rows of words.
        taken: the column of words, which is none.

    Raises:
        UnknownNameError: ``--sentences`` names no column.
    """
    if choice.sentences == NONE and NONE not in names:
        return []
    if choice.sentences is not None:
        return [place_of(where, "--sentences", choice.sentences, names)]
    plain = [re.sub(r"[\W_]", "", name).lower() for name in names]
    found = [place for place, name in enumerate(plain) if name in _OF_SENTENCES and place != taken]
    if found:
        return found + [place for place, name in enumerate(plain) if name in _OF_TEXTS]
    ids = [place for place, name in enumerate(names) if is_id(name) and place != taken]
    filled = [row for row in rows if row[1]] if ids else []
    return [place for place in ids if _repeats(column_of(filled, place))]


def check_undivided(
    where: str, names: Sequence[str], rows: Sequence[Row], taken: Sequence[int | None]
) -> None:
    """Refuse a table of one sentence that has a column which looks like sentence ids.

    Args:
        where: the file, for messages.
        names: the columns.
        rows: the rows of the sentence.
        taken: columns that are words or labels.

    Raises:
        DataError: a column holds numbered names, each in one run of rows.
    """
    for place, name in enumerate(names):
        if place not in taken and _are_ids(column_of(rows, place)):
            raise DataError(
                f"{where} reads as one sentence of {len(rows)} words, but column {name!r} looks "
                f"like sentence ids. Type --sentences {name} to divide it there, or --sentences "
                f"{NONE} if it is one sentence."
            )


def _repeats(cells: Sequence[str]) -> bool:
    return any(one == two != "" for one, two in pairwise(cells))


def _are_ids(cells: Sequence[str]) -> bool:
    """Say whether there are two numbered names or more, each in one run, one of several rows."""
    runs = [cell for cell, before in zip(cells, ["", *cells], strict=False) if cell != before]
    runs = [cell for cell in runs if cell.strip()]
    named = all(map(_NUMBERED.fullmatch, runs))
    return named and 1 < len(runs) == len(set(runs)) < len(cells)
