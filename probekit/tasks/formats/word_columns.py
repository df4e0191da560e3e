"""Files with one word per line in columns, and blank lines between sentences.

The format has no comments, but ``# sent_id = 7`` is meant as one. A ``#`` may as well be a word,
and a hashtag begins with one. So a comment is a line that begins a sentence with ``# `` and is no
row: it has another number of cells than rows have, or a label that no row has. (``#begin document``
is one by its number of cells alone, since ``#tag O`` is a row.)
"""

import itertools
import logging
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from probekit.base.notices import warn_once
from probekit.errors import DataError
from probekit.tasks.formats.fields import Fields, Row
from probekit.tasks.formats.file_parts import File
from probekit.tasks.formats.text_lines import read_lines, tab_cells
from probekit.tasks.sentences import DOCUMENT, Sentence, Sentences

logger = logging.getLogger(__name__)

# The ten columns of CoNLL-U, the format of Universal Dependencies, and those that label words.
FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LABEL_FIELDS = ("upos", "xpos", "lemma", "feats", "deprel", "head")
_UNMARKED = ("feats",)
"""Columns in which "_" says something: that a word has no features."""

_ABOUT = re.compile(r"#\s*([^=]*[^=\s])\s*=\s*(.*\S)")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s+id\s*=\s*(.*\S))?")

DOCUMENT_START = "-DOCSTART-"
_BLANKS = re.compile("[ \t]+")
_REMARK = re.compile(r"#\S*[ \t]")
"""The beginning of a line that may be a comment."""
_STATEMENT = re.compile(r"[=: ]")
"""What stands in ``id=1`` and in no plain tag."""


def read_tagged(path: Path, *layouts: Sequence[str]) -> Sentences:
    """Read a published file of words and their labels.

    Args:
        path: the file.
        layouts: the label columns that may stand behind the word.

    Raises:
        DataError: the rows have another number of columns.
    """
    fields = columns_of(path, read_lines(path))
    if not fields.lines:
        return fields.sentences(())
    width = len(fields.values)
    names = next((layout for layout in layouts if len(layout) + 1 == width), None)
    if names is None:
        forms = " or ".join(
            f"{len(layout) + 1} ({', '.join(['word', *layout])})" for layout in layouts
        )
        expected = forms.replace(" (", " columns (", 1)
        raise fields.fault(0, f"expected {expected}, found {width}.")
    labels = {name: str(column) for column, name in enumerate(names, start=1)}
    return fields.sentences(sentence_of(fields, rows, "0", labels) for rows in divide(fields))


def columns_of(path: Path, lines: Sequence[str]) -> Fields:
    """Return the columns of a file with a word per line, by their position; the last has labels.

    Cells are divided by single TABs if the first row has one, else by runs of ASCII blanks; never
    by other white space, which occurs inside words (no-break spaces). A line of blanks alone
    divides sentences, and so does ``-DOCSTART-``, which is no word. Comments are left out.

    Args:
        path: the file, for messages.
        lines: its lines.

    Raises:
        DataError: a row has more or fewer cells than the first one.
    """
    filled = (line for line in lines if _cells(line, tabs=True))
    first = next(filled, "")
    plain = (line for line in itertools.chain([first], filled) if not _REMARK.match(line))
    tabs = "\t" in next(plain, first)
    numbered = [(number, _cells(line, tabs)) for number, line in enumerate(lines, start=1)]
    rows = drop_comments(path, numbered, lines)
    width = next((len(cells) for _, cells in rows if cells), 0)
    for number, cells in rows:
        if cells and len(cells) != width:
            hint = " (A comment goes before its sentence: '# ...'.)"
            raise DataError(
                f"{path}, line {number}: expected {width} columns separated by "
                f"{'a TAB' if tabs else 'blanks'}, as in the lines before, found "
                f"{len(cells)}.{hint if cells[0].startswith('#') else ''}"
            )
    return Fields.of_rows(
        path,
        [str(column) for column in range(width)],
        rows,
        documents=[n for n, line in enumerate(lines, start=1) if _begins_document(line)],
        label=str(width - 1),
    )


def divide(fields: Fields, ids: Sequence[str] = ()) -> list[slice]:
    """Return the rows of each sentence: it ends at an empty row, and where its ids change.

    Args:
        fields: of a file with a word per line.
        ids: the columns of sentence ids; one that is given for the first word alone holds for
            those below it.
    """
    # With the ids in column 0, rows and the sentences they make:
    #   line 2  1  Peter  B-PER     sentence 1
    #   line 3     left   O         sentence 1, whose id is given once
    #   line 4  2  EU     B-ORG     sentence 2: the id changes
    #   line 5                      (empty)
    #   line 6  2  Rome   B-LOC     sentence 3: an empty row ends one whatever its id
    starts = set(fields.starts)
    for name in ids:
        last = ""
        for n, cell in enumerate(fields.values[name]):
            id = cell.strip() or last
            if id != last:
                starts.add(n)
            last = id
    return [slice(*ends) for ends in itertools.pairwise([*sorted(starts), len(fields.lines)])]


def sentence_of(fields: Fields, rows: slice, word: str, labels: Mapping[str, str]) -> Sentence:
    """Return the sentence that rows of a file with a word per line are.

    It knows its document where ``-DOCSTART-`` lines divide any.

    Args:
        fields: the columns.
        rows: those of the sentence.
        word: the column of words.
        labels: label column to its name in the file.
    """
    lines = tuple(fields.lines[rows])
    groups = {}
    if fields.documents:
        # Documents that begin in lines 1 and 8: the sentence of line 3 is of "eng.train#1", that
        # of line 10 of "eng.train#2".
        number = bisect_right(fields.documents, lines[0])
        groups = {DOCUMENT: f"{Path(fields.where).name}#{number}"}
    named = {name: tuple(fields.values[column][rows]) for name, column in labels.items()}
    return Sentence(tuple(fields.values[word][rows]), named, lines, groups=groups)


def is_conllu(lines: Sequence[str]) -> bool:
    """Say whether the first row has the ten cells of CoNLL-U, of which the first counts words."""
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    cells = first.split("\t")
    return len(cells) == len(FIELDS) and cells[0].partition("-")[0] == "1"


def parse_conllu(
    path: Path, columns: Sequence[str], words: str = "form", lines: Sequence[str] | None = None
) -> Sentences:
    """Read the syntactic words of a CoNLL-U file.

    Multiword tokens (ids with "-") and empty nodes (ids with ".") are left out. Sentence ids are
    the file's ``sent_id``. A column that is "_" throughout is one without labels. Sentences may be
    grouped by what their comments say, ``# genre = news``, and by ``document``, of ``# newdoc``.

    Args:
        path: the file.
        columns: the label columns to keep, out of ``FIELDS``; ``feats:Number`` is that feature of
            each word, "_" where it has none.
        words: the column with the words.
        lines: the file's lines, where they are read already.

    Raises:
        DataError: a row has not ten columns, or an id out of order.
    """
    rows: list[Row] = []
    about: dict[str, str] = {}
    document: dict[str, str] = {}
    sentences = []
    lines = read_lines(path) if lines is None else lines
    for number, line in enumerate([*lines, ""], start=1):
        if line.startswith("#"):
            if begun := _NEW_DOCUMENT.match(line):
                document = {DOCUMENT: begun[1] or f"{path.name}, line {number}"}
            elif said := _ABOUT.match(line):
                about[said[1]] = said[2]
        elif line.strip(" \t"):
            _add_row(path, number, line, rows)
        elif rows:
            numbers, cells = zip(*rows, strict=True)
            by_name = dict(zip(FIELDS, zip(*cells, strict=True), strict=True))
            labels = {column: _values(by_name, column) for column in columns}
            id = about.pop("sent_id", None)
            groups = about | document
            sentences.append(Sentence(by_name[words], labels, numbers, id, groups=groups))
            rows, about = [], {}
    corpus = replace(Sentences.of_file(path, sentences), unmarked=_UNMARKED)
    for column in columns:
        if all(set(sentence.labels[column]) == {"_"} for sentence in sentences):
            corpus = corpus.with_labels(column, {})
    return corpus


def _values(by_name: Mapping[str, tuple[str, ...]], column: str) -> tuple[str, ...]:
    """Return the cells of a column, or in them what stands behind a name and "="."""
    field, _, name = column.partition(":")
    if not name:
        return by_name[field]
    pairs = (
        dict(pair.split("=", 1) for pair in cell.split("|") if "=" in pair)
        for cell in by_name[field]
    )
    return tuple(values.get(name, "_") for values in pairs)


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


def drop_comments(path: File, rows: Sequence[Row], lines: Sequence[str]) -> list[Row]:
    """Return the rows of a file, those that are comments without cells; how many is said.

    Args:
        path: the file, for the message.
        rows: its rows.
        lines: the line of each.
    """
    kept, dropped = list(rows), []
    doubtful = {
        n for n, line in enumerate(lines) if _REMARK.match(line) and _begins(lines, rows, n)
    }
    sure = [cells for n, (_, cells) in enumerate(rows) if cells and n not in doubtful]
    if not (doubtful and sure):
        return kept
    width = Counter(map(len, sure)).most_common(1)[0][0]
    labels = {cells[-1] for cells in sure} | {"#"}
    plain = not any(map(_STATEMENT.search, labels))
    for n in sorted(doubtful):
        number, cells = rows[n]
        begins = n == 0 or not kept[n - 1][1]
        states = cells[0] == "#" and plain and _STATEMENT.search(cells[-1])
        unknown = (lines[n].startswith("# ") or states) and cells[-1] not in labels
        if begins and (len(cells) != width or (unknown and width > 1)):
            kept[n] = (number, ())
            dropped.append(n)
    if dropped:
        warn_once(
            logger,
            f"{path}: {len(dropped)} lines that begin a sentence with # are read as comments (line "
            f"{rows[dropped[0]][0]}: {lines[dropped[0]]!r}).",
        )
    return kept


def _begins(lines: Sequence[str], rows: Sequence[Row], n: int) -> bool:
    """Return whether nothing but remarks stands between a line and the end of the last sentence."""
    while n and rows[n - 1][1] and _REMARK.match(lines[n - 1]):
        n -= 1
    return not n or not rows[n - 1][1]


def _cells(line: str, tabs: bool) -> tuple[str, ...]:
    """Return the cells of a line, none where it is no row."""
    content = line.strip(" \t")
    if not content or _begins_document(content):
        return ()
    # Tuples of strings cost the garbage collector nothing, lists of cells half of the reading.
    return tuple(line.split("\t") if tabs else _BLANKS.split(content))


def _begins_document(line: str) -> bool:
    content = line.strip(" \t")
    return content.startswith(DOCUMENT_START) and _BLANKS.split(content)[0] == DOCUMENT_START
