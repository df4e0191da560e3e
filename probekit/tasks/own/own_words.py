"""The user's own words: a word per row, or lists of words and of labels per record."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from probekit.errors import DataError
from probekit.tasks.column_choice import (
    LISTS_OF_WORDS,
    WORDS,
    choose_label,
    choose_words,
    is_id,
    place_of,
)
from probekit.tasks.formats.delimited import column_of, read_table
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.file_names import RUNNING, format_of
from probekit.tasks.formats.text_lines import own_lines
from probekit.tasks.formats.word_columns import (
    FIELDS,
    LABEL_FIELDS,
    Row,
    column_rows,
    divide,
    parse_conllu,
    sentence_of,
    with_documents,
)
from probekit.tasks.label_names import class_text
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.text_options import Choice

MOST_WORDS = 500
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


def read_words(path: Path, choice: Choice) -> Sentences:
    """Read a file with one word per row.

    A ``.txt`` file is columns or CoNLL-U, as the copies of many corpora are called.

    Raises:
        OptionError: the choice of columns is left open, or does not fit.
        DataError: the file does not hold what its format promises; for ``.txt`` the message says
            how running text is read.
    """
    form = format_of(path)
    if form == ".conllu":
        return _read_conllu(path, choice)
    if form != RUNNING:
        return _read_rows(path, choice)
    try:
        conllu = _is_conllu(own_lines(path, choice.encoding))
        return _read_conllu(path, choice) if conllu else _read_rows(path, choice)
    except DataError as error:
        raise DataError(
            f"{error} It is read as columns, a word per line; where it is running text, give "
            "--kind language-modelling."
        ) from error


def words_of(fields: Fields, choice: Choice) -> Sentences:
    """Return records of words as sentences.

    Raises:
        OptionError: the choice of columns is left open.
        DataError: no column holds lists of words, or a row's is none.
    """
    if not fields.lines:
        return fields.sentences(())
    names = list(fields.values)
    lists = list_columns(fields)
    word = choose_words(fields.where, choice, names, lists)
    label = choose_label(fields.where, choice, names, [name for name in lists if name != word])
    return fields.sentences(_record(fields, n, word, label) for n in range(len(fields.lines)))


def list_columns(fields: Fields) -> list[str]:
    """Return the columns of records that could hold words, or labels of words."""
    return [name for name, values in fields.values.items() if _is_list_column(name, values)]


def _is_conllu(lines: Sequence[str]) -> bool:
    """Say whether the first row has the ten cells of CoNLL-U, of which the first counts words."""
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    cells = first.split("\t")
    return len(cells) == len(FIELDS) and cells[0].partition("-")[0] == "1"


def _read_conllu(path: Path, choice: Choice) -> Sentences:
    """Read CoNLL-U; without ``--label`` the labels are the first of ``LABEL_FIELDS`` it has."""
    where, lines = str(path), own_lines(path, choice.encoding)
    word = FIELDS[place_of(where, "--text", choice.text or "form", FIELDS)]
    if choice.label is not None and not choice.texts_alone:
        label = FIELDS[place_of(where, "--label", choice.label, FIELDS)]
        return parse_conllu(path, (label,), word, lines)
    found = parse_conllu(path, [field for field in LABEL_FIELDS if field != word], word, lines)
    first = (replace(s, labels=dict(list(s.labels.items())[:1])) for s in found.sentences)
    return replace(found, sentences=tuple(first))


def _read_rows(path: Path, choice: Choice) -> Sentences:
    """Read columns of words, or a table of them.

    In columns, which are named by their position, the word is the first and the label the last one;
    one alone has no labels. With ``--separator`` they are read as a table. A table has a header
    (``read_table``) or a word in the first column, and one label column. Empty rows divide
    sentences, and so does a column of sentence ids.

    Raises:
        OptionError: several label columns and no ``--label``, or no such column.
        DataError: rows of different widths, texts where words should be, or one sentence with a
            column that looks like sentence ids; a table that is one of over ``MOST_WORDS`` words.
    """
    where = str(path)
    in_table = format_of(path) not in (".conll", RUNNING) or choice.separator is not None
    if in_table:
        names, rows = read_table(path, choice)
    else:
        rows = column_rows(path, own_lines(path, choice.encoding))
        width = next((len(cells) for _, cells in rows if cells), 0)
        names = [str(place) for place in range(width)]
    if not names:
        return Sentences.of_file(path, ())
    usual = next((name for name in names if name.lower() in WORDS), names[0])
    word = place_of(where, "--text", choice.text or usual, names)
    ids = _sentence_columns(where, choice, names, rows, word)
    if in_table:
        full = {place for _, cells in rows for place, cell in enumerate(cells) if cell}
        empty = [place for place in range(len(names)) if place not in full]
        label = _table_label(where, choice, names, (word, *ids, *empty))
    else:
        last = names[-1] if choice.texts_alone else choice.label or names[-1]
        label = place_of(where, "--label", last, names) if len(names) > 1 else None
    blocks = divide(rows, ids)
    if len(blocks) == 1 and choice.sentences is None:
        asked = [place for place, name in enumerate(names) if name == choice.label]
        _check_undivided(where, names, blocks[0], (word, label, *ids, *asked))
    labels = {} if label is None or choice.texts_alone else {names[label]: label}
    found = Sentences.of_file(path, (sentence_of(block, word, labels) for block in blocks))
    if not in_table:
        return with_documents(found, path.name, own_lines(path, choice.encoding))
    others = {name: place for place, name in enumerate(names) if place not in (word, label)}
    sentences = (
        replace(one, groups=_shared(block, others))
        for one, block in zip(found.sentences, blocks, strict=True)
    )
    return _checked(replace(found, sentences=tuple(sentences)))


def _shared(block: Sequence[Row], places: Mapping[str, int]) -> dict[str, str]:
    """Return the value of each column in which the rows of a sentence have one, or none below."""
    found = {name: set(map(str.strip, column_of(block, n))) - {""} for name, n in places.items()}
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _table_label(
    where: str, choice: Choice, names: Sequence[str], taken: Sequence[int]
) -> int | None:
    """Return the label column: the one asked for, else the only one that is no word and no id."""
    free = [name for place, name in enumerate(names) if place not in taken]
    if choice.label is None:
        free = [name for name in free if not is_id(name)]
    hint = (
        " It is read as words, one per row; where each row is a text with one label, give --kind "
        "sentence, pair or regression."
    )
    label = choose_label(where, choice, names, free, hint)
    return None if label is None else names.index(label)


def _checked(found: Sentences) -> Sentences:
    """Return the words of a table without blanks around them; refuse texts, and a file of one.

    Most words of a table of texts hold blanks; one sentence as long as a file lacks its empty rows.
    """
    sentences = tuple(
        replace(one, words=tuple(word.strip(" \t") for word in one.words))
        for one in found.sentences
    )
    words = [word for sentence in sentences for word in sentence.words]
    texts = [word for word in words if " " in word.strip()]
    if len(texts) > len(words) / 2:
        raise DataError(
            f"{found.where}: the column of words holds texts, such as {texts[0][:60]!r}. For one "
            "label per text give --kind sentence (or pair, regression); for labels of words write "
            "one word per row."
        )
    if len(sentences) == 1 and len(words) > MOST_WORDS:
        raise DataError(
            f"{found.where} reads as one sentence of {len(words)} words; sentences are divided by "
            "blank rows, or by a column of sentence ids (--sentences). Put a blank row after each "
            "sentence, or convert the file to .jsonl or .conll."
        )
    return replace(found, sentences=sentences)


def _is_list_column(name: str, values: Sequence[Any]) -> bool:
    """Return whether a column holds lists of strings, whole numbers, or truths.

    One that is empty in every row holds none, unless it is called as words are. What else stands
    among strings and whole numbers is a fault that is told with its line, and no reason to look
    elsewhere.
    """
    filled = [value for value in values if value is not None]
    if not all(isinstance(value, list) for value in filled):
        return False
    flat = [item for value in filled for item in value]
    some = any(filled) or (bool(filled) and name.lower() in LISTS_OF_WORDS)
    plain = sum(isinstance(item, str | int) for item in flat)
    return some and (2 * plain > len(flat) or all(isinstance(_tag(item), str) for item in flat))


def _record(fields: Fields, number: int, word: str, label: str | None) -> Sentence:
    words = _strings(fields, number, word)
    if words is None:
        raise DataError(f"{fields.place(number)}: no words in column {word!r}.")
    found = None if label is None else _strings(fields, number, label, tags=True)
    labels = {} if found is None else {str(label): found}
    lines = (fields.lines[number],) * max(len(words), 1)
    groups = fields.groups_of(number)
    return Sentence(words, labels, lines, fields.id_of(number), groups=groups)


def _strings(fields: Fields, number: int, name: str, tags: bool = False) -> tuple[str, ...] | None:
    """Return one cell as strings; ``tags`` are classes as those of texts, or none."""
    value = fields.values[name][number]
    if value is None:
        return None
    found = list(map(_tag, value)) if tags and isinstance(value, list) else value
    listed = found if isinstance(found, list) else [value]
    wrong = [item for item in listed if not isinstance(item, str)]
    if wrong or not isinstance(found, list):
        expected = "a list of strings or whole numbers" if tags else "a list of strings"
        raise DataError(
            f"{fields.place(number)}: expected {expected} in column {name!r}, found "
            f"{(wrong or listed)[0]!r:.60}."
        )
    return tuple(found)


def _tag(value: Any) -> Any:
    """Return a tag as text; what can be none stays as it is."""
    if value is None or value != value:  # marks of none, in text as in JSON
        return "null"
    return class_text(value)


def _sentence_columns(
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
    cells = {place: column_of(filled, place) for place in ids}
    return [p for p in ids if any(one == two != "" for one, two in pairwise(cells[p]))]


def _check_undivided(
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


def _are_ids(cells: Sequence[str]) -> bool:
    """Say whether there are two numbered names or more, each in one run, one of several rows."""
    runs = [cell for cell, before in zip(cells, ["", *cells], strict=False) if cell != before]
    runs = [cell for cell in runs if cell.strip()]
    named = all(map(_NUMBERED.fullmatch, runs))
    return named and 1 < len(runs) == len(set(runs)) < len(cells)
