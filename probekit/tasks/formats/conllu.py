"""CoNLL-U, the format of Universal Dependencies: ten columns and comments."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.formats.text_lines import read_lines, tab_cells
from probekit.tasks.formats.word_columns import Row, sentence_of
from probekit.tasks.sentences import Sentences

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LABEL_FIELDS = ("upos", "xpos", "lemma", "feats", "deprel")
_UNMARKED = ("feats",)
"""Columns in which "_" says something: that a word has no features."""
_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*\S)")


def parse_conllu(
    path: Path, columns: Sequence[str], words: str = "form", lines: Sequence[str] | None = None
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
    rows: list[Row] = []
    name: str | None = None
    word, places = FIELDS.index(words), {field: FIELDS.index(field) for field in columns}
    sentences = []
    lines = read_lines(path) if lines is None else lines
    for number, line in enumerate([*lines, ""], start=1):
        if line.startswith("#"):
            match = _SENT_ID.match(line)
            name = match[1] if match else name
        elif line.strip(" \t"):
            _add_row(path, number, line, rows)
        elif rows:
            sentences.append(sentence_of(rows, word, places, name))
            rows, name = [], None
    found = replace(Sentences.of_file(path, sentences), unmarked=_UNMARKED)
    for column in columns:
        if all(set(sentence.labels[column]) == {"_"} for sentence in sentences):
            found = found.with_labels(column, {})
    return found


def _add_row(path: Path, number: int, line: str, rows: list[Row]) -> None:
    cells = tab_cells(path, number, line, len(FIELDS))
    if "-" in cells[0] or "." in cells[0]:
        return
    if cells[0] != str(len(rows) + 1):
        raise DataError(
            f"{path}, line {number}: expected word id {len(rows) + 1}, found {cells[0]!r} "
            "(is the empty line between sentences missing?)."
        )
    rows.append((number, cells))
