"""The user's own examples out of columns: sentences in words, or texts with a label each."""

import json
import logging
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probekit.base.notices import warn_once
from probekit.errors import DataError
from probekit.tasks.column_choice import (
    NONE,
    Columns,
    choose_columns,
    one_class,
    place_of,
    tag_text,
)
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.file_parts import File
from probekit.tasks.formats.text_lines import own_lines
from probekit.tasks.formats.word_columns import (
    FIELDS,
    LABEL_FIELDS,
    divide,
    parse_conllu,
    sentence_of,
)
from probekit.tasks.schemes import NO_LABEL, NUMBERS, class_text, is_number, marks_among, trim
from probekit.tasks.sentences import Sentence, Sentences, plain_text
from probekit.tasks.spans import read_targets, source_columns
from probekit.tasks.task import Choice

logger = logging.getLogger(__name__)

MOST_WORDS = 500
SIGNS = ";|,"
"""What may divide the labels of a cell, the likeliest first."""
_NUMBERED = re.compile(r".*\d")


def read_fields(fields: Fields, choice: Choice) -> Sentences:
    """Return columns as examples: one per record, or per sentence of a file with a word per line.

    Raises:
        OptionError: the choice of columns is left open, or does not fit the kind.
        UnknownNameError: no column has the name asked for.
        DataError: no column could be it; a row without words or text, a label that is none, or some
            texts without a label (empty or a mark for none, such as -1) among others with one.
    """
    if not fields.lines:
        return fields.sentences(())
    if choice.of_kind.per == "span":
        return read_targets(fields, choice)
    columns = choose_columns(fields, choice)
    if choice.of_kind.per == "word" and fields.starts:
        corpus = _words_per_line(fields, columns, choice)
    else:
        fields = _without_blank(fields, columns.texts, choice)
        if choice.of_kind.per == "word":
            rows = range(len(fields.lines))
            corpus = fields.sentences(_record(fields, n, columns) for n in rows)
        else:
            corpus = _texts(fields, columns, choice)
    return replace(corpus, taken=columns.taken(choice))


def _without_blank(fields: Fields, texts: Sequence[str], choice: Choice) -> Fields:
    """Leave out the rows without text, or words, where the user says so.

    Raises:
        DataError: there are some, and he does not.
    """
    blank = {
        row: name
        for name in texts
        for row, value in enumerate(fields.values[name])
        if value in (None, []) or (isinstance(value, str) and not value.strip())
    }
    if not blank:
        return fields
    first, count = min(blank), len(blank)
    if not choice.skip_blank:
        what = "words" if choice.of_kind.per == "word" else "text"
        others = f", the first of {count:,} such rows" if count > 1 else ""
        way = "remove it" if choice.texts_alone else "give --skip blank to leave such rows out"
        fault = f"no {what} in column {blank[first]!r}{others}; fill it in, or {way}."
        raise fields.fault(first, fault)
    warn_once(
        logger,
        f"{fields.where}: {count:,} of {len(fields.lines):,} rows have no text and are left out "
        "(--skip blank).",
    )
    return fields.take([row for row in range(len(fields.lines)) if row not in blank])


def read_running(path: File, choice: Choice) -> Sentences:
    """Read plain text for language modelling: an example per run of lines between blank lines.

    This is the form in which BERT's own corpora were written: a blank line ends a document. Lines
    stay as they are, divided by line feeds. (One document per row of a ``.jsonl`` file keeps blank
    lines inside documents.)
    """
    blocks: list[list[tuple[int, str]]] = [[]]
    for number, line in enumerate(own_lines(path), start=1):
        if line.strip():
            blocks[-1].append((number, line))
        elif blocks[-1]:
            blocks.append([])
    filled = (block for block in blocks if block)
    return Sentences.of_file(
        path,
        (plain_text(("\n".join(line for _, line in lines),), {}, lines[0][0]) for lines in filled),
    )


def read_conllu(path: Path, lines: Sequence[str], choice: Choice) -> Sentences:
    """Read CoNLL-U; without ``--label`` the labels are the first of ``LABEL_FIELDS`` it has.

    Raises:
        DataError: no word has the feature that is asked for.
    """
    where = str(path)
    word = FIELDS[place_of(where, "--text", choice.text or "form", FIELDS)]
    if choice.label is not None and not choice.texts_alone:
        named, *others = source_columns(choice.label)
        field, colon, name = named.partition(":")
        field = FIELDS[place_of(where, "--label", field if name else named, FIELDS)]
        label = f"{field}{colon}{name}" if name else field
        corpus = parse_conllu(path, (label, *others), word, lines)
        if name and not corpus.labels(label):
            raise DataError(f"{where}: no word has a value of {name!r} in {field} (NAME=VALUE).")
        return corpus
    corpus = parse_conllu(path, [field for field in LABEL_FIELDS if field != word], word, lines)
    first = [replace(s, labels=dict(list(s.labels.items())[:1])) for s in corpus.sentences]
    column = next((name for sentence in first for name in sentence.labels), None)
    taken = Columns((word,), column).taken(choice)
    return replace(corpus, sentences=tuple(first), taken=taken)


def _words_per_line(fields: Fields, columns: Columns, choice: Choice) -> Sentences:
    """Return the sentences of columns, or of a table, with a word per line.

    Those of a table share what is the same in all their rows, and words have no blanks around them.

    Raises:
        DataError: one sentence with a column that looks like sentence ids; in a table, texts where
            words should be, or one sentence of over ``MOST_WORDS`` words.
    """
    (word,), label, ids = columns
    sentences = divide(fields, ids)
    if len(sentences) == 1 and choice.sentences is None:
        _check_undivided(fields, {word, label, fields.label, choice.label, *ids})
    labels = {} if label is None else {label: label}
    divided = fields.sentences(sentence_of(fields, rows, word, labels) for rows in sentences)
    if fields.label is not None:
        return divided
    others = {name: cells for name, cells in fields.values.items() if name not in (word, label)}
    shared = []
    for sentence, rows in zip(divided.sentences, sentences, strict=True):
        values = {name: {*map(str.strip, cells[rows])} - {""} for name, cells in others.items()}
        groups = {
            name: different.pop() for name, different in values.items() if len(different) == 1
        }
        words = tuple(text.strip(" \t") for text in sentence.words)
        shared.append(replace(sentence, words=words, groups=groups))
    _check_table(divided, [text for sentence in shared for text in sentence.words])
    return replace(divided, sentences=tuple(shared))


def _check_undivided(fields: Fields, taken: set[str | None]) -> None:
    """Refuse one sentence that has a column which looks like sentence ids.

    They are two numbered names or more, each in one run of rows, one of several.
    """
    for name, cells in fields.values.items():
        runs = [cell for cell, before in zip(cells, ["", *cells], strict=False) if cell != before]
        runs = [cell for cell in runs if cell.strip()]
        numbered = all(map(_NUMBERED.fullmatch, runs)) and 1 < len(runs) == len(set(runs))
        if name not in taken and numbered and len(runs) < len(cells):
            raise DataError(
                f"{fields.where} reads as one sentence of {len(cells)} words, but column {name!r} "
                f"looks like sentence ids. Type --sentences {name} to divide it there, or "
                f"--sentences {NONE} if it is one sentence."
            )


def _check_table(corpus: Sentences, words: Sequence[str]) -> None:
    """Refuse a table of texts, where most words hold blanks, and one without empty rows."""
    texts = [word for word in words if " " in word.strip()]
    if len(texts) > len(words) / 2:
        raise DataError(
            f"{corpus.where}: the column of words holds whole texts, such as {texts[0][:60]!r}. "
            "For one label per text give --kind sentence (or pair, regression); for labels of "
            "words write one word per row."
        )
    if len(corpus.sentences) == 1 and len(words) > MOST_WORDS:
        raise DataError(
            f"{corpus.where} reads as one sentence of {len(words)} words; sentences are divided by "
            "blank rows, or by a column of sentence ids (--sentences). Put a blank row after each "
            "sentence, or convert the file to .jsonl or .conll."
        )


def _record(fields: Fields, number: int, columns: Columns) -> Sentence:
    """Return the sentence of a record with a list of words, and perhaps one of labels."""
    (word,), label, _ = columns
    words = _strings(fields, number, word) or ()
    tags = None if label is None else _strings(fields, number, label, tags=True)
    labels = {} if tags is None else {str(label): tags}
    lines = (fields.lines[number],) * max(len(words), 1)
    groups = fields.groups_of(number)
    return Sentence(words, labels, lines, fields.id_of(number), groups=groups)


def _strings(fields: Fields, number: int, name: str, tags: bool = False) -> tuple[str, ...] | None:
    """Return one cell as strings; ``tags`` are classes as those of texts, or none."""
    value = fields.values[name][number]
    if value is None:
        return None
    items = [tag_text(item) if tags else item for item in value] if isinstance(value, list) else []
    wrong = [item for item in items if not isinstance(item, str)]
    if wrong or not isinstance(value, list):
        expected = "a list of strings or whole numbers" if tags else "a list of strings"
        fault = f"expected {expected} in column {name!r}, found {(wrong or [value])[0]!r:.60}."
        raise fields.fault(number, fault)
    return tuple(items)


def _texts(fields: Fields, columns: Columns, choice: Choice) -> Sentences:
    """Return one text, or two, with the label, or the set of labels, of each row that has one."""
    label, rows = columns.label, range(len(fields.lines))
    read = _label_sets if choice.of_kind.targets == "sets" else _labels
    if label is not None and read is _label_sets:
        choice = replace(choice, sign=_sign_of(fields, label, choice.sign))
    labels = [] if label is None else read(fields, label, choice)
    if label is None or all(names is None for names in labels):
        return fields.sentences(_text(fields, n, columns.texts, {}) for n in rows)
    labelled = fields.sentences(
        _text(fields, n, columns.texts, {label: names})
        for n, names in enumerate(labels)
        if names is not None
    )
    return replace(labelled, sign=choice.sign)


def _label_sets(fields: Fields, column: str, choice: Choice) -> list[tuple[str, ...] | None]:
    """Return the labels of every row; None where nothing is written, as in all cells if in none.

    Cells are divided at the choice's sign. An empty one has no label; one that holds but a mark for
    none says nothing.
    """
    cells = fields.values[column]
    sets = [
        None if cell is None else _label_set(fields, n, column, choice.sign or SIGNS[0])
        for n, cell in enumerate(cells)
    ]
    marks = marks_among(name for names in sets for name in names or ())
    without = {n for n, names in enumerate(sets) if names is None or (names and marks >= {*names})}
    if all(n in without or cell == "" for n, cell in enumerate(cells)):
        return [None] * len(cells)
    for n, names in enumerate(sets):
        if n not in without and (mixed := marks.intersection(names or ())):
            raise fields.fault(n, f"{min(mixed)} means that a label is missing; leave it out.")
    mark = next(iter(sets[min(without)] or ()), "") if without else ""
    _check_unlabelled(fields, column, sorted(without), choice, mark)
    return [None if n in without else names for n, names in enumerate(sets)]


def _sign_of(fields: Fields, column: str, before: str) -> str:
    """Return what divides the labels of cells; "" where nothing does.

    Args:
        fields: the columns of a file.
        column: that of the labels.
        before: what divides those of the files that were read before.

    Raises:
        DataError: a sign that goes before that one, which some label there may well hold.
    """
    cells = {n: cell for n, cell in enumerate(fields.values[column]) if isinstance(cell, str)}
    for sign in SIGNS[: SIGNS.index(before)] if before else SIGNS:
        rows = [n for n, cell in cells.items() if sign in cell and not _is_json(cell)]
        if rows and before:
            raise fields.fault(
                rows[0],
                f"column {column!r} has {sign!r} here, but in the files before {before!r} "
                'separates labels; use the same sign everywhere, or write lists: ["a", "b"].',
            )
        if rows:
            return sign
    return before


def _is_json(cell: str) -> bool:
    return cell.lstrip().startswith("[")


def _label_set(fields: Fields, number: int, column: str, sign: str) -> tuple[str, ...]:
    """Return the labels of a row by name, sorted, each once."""
    cell = fields.values[column][number]
    try:
        if isinstance(cell, str):
            cell = json.loads(cell) if _is_json(cell) else filter(trim, cell.split(sign))
    except (ValueError, RecursionError) as error:
        fault = f'{cell[:60]!r} is not a JSON list; write ["a", "b"], or a;b.'
        raise fields.fault(number, fault) from error
    items = [class_text(item) for item in (cell if isinstance(cell, list | filter) else [cell])]
    if wrong := [item for item in items if not isinstance(item, str) or not trim(item)]:
        fault = f"expected labels in column {column!r}, found {wrong[0]!r:.60}; leave it out."
        raise fields.fault(number, fault)
    return tuple(sorted(set(map(trim, items))))


def _text(
    fields: Fields, number: int, texts: Sequence[str], labels: dict[str, tuple[str, ...]]
) -> Sentence:
    row = tuple(fields.values[name][number] for name in texts)
    for name, value in zip(texts, row, strict=True):
        if not isinstance(value, str):
            kind = type(value).__name__
            raise fields.fault(number, f"expected text in column {name!r}, found {kind}.")
    line, groups = fields.lines[number], fields.groups_of(number)
    return replace(plain_text(row, {}, line, fields.id_of(number), groups), labels=labels)


def _labels(fields: Fields, column: str, choice: Choice) -> list[tuple[str, ...] | None]:
    """Return the label of every row by name; None where it has none.

    A number may well be -1, or below; -100 is a mark for none if others are negative too.

    Raises:
        DataError: some rows have none, and they are not to be left out.
    """
    numeric = choice.of_kind.targets == "numbers"
    convert = _number if numeric else _class
    labels = [convert(fields, n, column) for n in range(len(fields.lines))]
    marks = marks_among(labels) | {NO_LABEL}
    if marks.issuperset(labels):
        return [None] * len(labels)
    if numeric:
        others = [float(label) for label in set(labels) - marks if is_number(label)]
        marks -= {"-1", "nan"} | ({"-100"} if any(other < 0 for other in others) else set())
    without = [n for n, label in enumerate(labels) if label in marks]
    _check_unlabelled(fields, column, without, choice, labels[without[0]] if without else "")
    return [None if label in marks else (label,) for label in labels]


def _check_unlabelled(
    fields: Fields, column: str, without: Sequence[int], choice: Choice, mark: str
) -> None:
    """Refuse rows without a label, the first by a mark, among others; or say: left out."""
    meaning = f" ({mark} means no label; rename it if it is a class)" if mark else ""
    if without and not choice.skip_unlabelled:
        more = f", the first of {len(without):,} such rows" if len(without) > 1 else ""
        raise fields.fault(
            without[0],
            f"no label in column {column!r}{meaning}{more}, but others have one. Label all rows of "
            "the split or none, or give --skip unlabelled to leave such rows out.",
        )
    if without:
        warn_once(
            logger,
            f"{fields.where}: {len(without):,} of {len(fields.lines):,} rows have no label in "
            f"column {column!r} and are left out (--skip unlabelled).",
        )


def _class(fields: Fields, number: int, column: str) -> str:
    """Return a class by name; "" where there is none."""
    value = one_class(fields.values[column][number])
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    text = class_text(value)
    if not isinstance(text, str):
        kind = "several labels use --kind multilabel"
        if not isinstance(value, list):
            kind = "numbers use --kind regression"
        fault = f"expected a class in column {column!r}, found {value!r}. For {kind}."
        raise fields.fault(number, fault)
    return trim(text)


def _number(fields: Fields, number: int, column: str) -> str:
    """Return a number as text; "" where there is none."""
    value = one_class(fields.values[column][number])
    text = "" if value is None else trim(str(value))
    return str(int(float(text))) if is_number(text) and float(text) in NUMBERS else text
