"""CoNLL-U, the format of Universal Dependencies: ten columns and comments."""

import re
from collections.abc import Sequence
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.corpora.published import origin_of
from probekit.tasks.formats.text_lines import read_lines
from probekit.tasks.sentences import Sentence, Sentences

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LABEL_FIELDS = ("upos", "xpos", "lemma", "feats", "deprel")
_UNMARKED = ("feats",)
"""Columns in which "_" says something: that a word has no features."""
_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*\S)")


def parse_conllu(
    path: Path,
    columns: Sequence[str],
    words: str = "form",
    lines: Sequence[str] | None = None,
) -> Sentences:
    """Read the syntactic words of a CoNLL-U file.

    Multiword tokens (ids with "-") and empty nodes (ids with ".") are left out. Sentence ids are
    the file's ``sent_id``. A column that is "_" throughout is one without labels.

    Args:
        path: the file.
        columns: the label columns to keep, out of ``LABEL_FIELDS``.
        words: the column with the words.
        lines: the file's lines, where they are read already.

    Raises:
        DataError: a row has not ten columns, or an id out of order.
    """
    rows: list[tuple[int, list[str]]] = []
    found: list[Sentence] = []
    name: str | None = None
    lines = read_lines(path) if lines is None else lines
    for number, line in enumerate([*lines, ""], start=1):
        if line.startswith("#"):
            match = _SENT_ID.match(line)
            name = match[1] if match else name
        elif line.strip(" \t"):
            _add_row(path, number, line, rows)
        elif rows:
            found.append(_sentence(rows, columns, words, name))
            rows, name = [], None
    return Sentences(
        sentences=_drop_unlabelled(found, columns),
        where=str(path),
        origin=origin_of(path),
        unmarked=_UNMARKED,
    )


def _add_row(path: Path, number: int, line: str, rows: list[tuple[int, list[str]]]) -> None:
    cells = line.split("\t")
    if len(cells) != len(FIELDS):
        raise DataError(
            f"{path}, line {number}: expected {len(FIELDS)} columns divided by TABs, "
            f"found {len(cells)}."
        )
    if "-" in cells[0] or "." in cells[0]:
        return
    if cells[0] != str(len(rows) + 1):
        raise DataError(
            f"{path}, line {number}: expected word id {len(rows) + 1}, found {cells[0]!r} "
            "(is the empty line between sentences missing?)."
        )
    rows.append((number, cells))


def _sentence(
    rows: Sequence[tuple[int, list[str]]], columns: Sequence[str], words: str, name: str | None
) -> Sentence:
    def column(field: str) -> tuple[str, ...]:
        return tuple(cells[FIELDS.index(field)] for _, cells in rows)

    labels = {field: column(field) for field in columns}
    return Sentence(column(words), labels, tuple(number for number, _ in rows), name)


def _drop_unlabelled(found: Sequence[Sentence], columns: Sequence[str]) -> tuple[Sentence, ...]:
    """Leave out the columns that hold "_" (unspecified) for every word."""
    empty = {c for c in columns if all(set(sentence.labels[c]) == {"_"} for sentence in found)}
    if not empty:
        return tuple(found)
    return tuple(
        Sentence(s.words, {c: v for c, v in s.labels.items() if c not in empty}, s.lines, s.id)
        for s in found
    )
