"""The user's own sentences, pairs and numbers: one text or two, and one label, per example."""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from probekit.base.kinds import KindName
from probekit.base.notices import warn_once
from probekit.errors import DataError, OptionError
from probekit.tasks.corpora.published import origin_of
from probekit.tasks.formats.blanks import trim
from probekit.tasks.formats.encodings import own_lines
from probekit.tasks.formats.extensions import RUNNING, format_of
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.separators import NAMES, chosen_separator
from probekit.tasks.formats.text_fields import load_fields
from probekit.tasks.numeric_labels import is_number
from probekit.tasks.own.column_choice import Choice, place_of
from probekit.tasks.own.text_columns import LABELS, choose_label, choose_texts, is_id
from probekit.tasks.own.unlabelled import NO_LABEL, NUMBERS, marks_among
from probekit.tasks.sentences import Sentence, Sentences, plain_text

logger = logging.getLogger(__name__)


def read_texts(path: Path, choice: Choice, *, kind: KindName) -> Sentences:
    """Read a table (``.csv``, ``.tsv``, ``.txt``) or a file of records, one example per row.

    Args:
        path: the file.
        choice: the columns asked for.
        kind: sentence, pair, regression or language-modelling (text alone).

    Raises:
        OptionError: the choice of columns is left open, or does not fit the kind.
        DataError: a row without text, a label that is none, or some rows without a label (empty
            or a mark for none, such as -1) among rows with one.
    """
    if format_of(path) == RUNNING:
        _check_divided(path, choice)
    return texts_of(load_fields(path, choice), choice, kind)


def _check_divided(path: Path, choice: Choice) -> None:
    """Refuse running text where labelled texts are read."""
    mark = chosen_separator(choice) or "\t"
    if not any(mark in line for line in own_lines(path, choice)):
        raise DataError(
            f"{path}: unknown format {RUNNING!r}; expected columns divided by "
            f"{NAMES.get(mark, mark)}s, and no line has one (--separator says what else). For "
            f"{RUNNING} use --kind language-modelling if it is running text."
        )


def read_txt(path: Path, choice: Choice) -> Sentences:
    """Read plain text for language modelling: an example per run of lines between blank lines.

    This is the form in which BERT's own corpora were written: a blank line ends a document. Lines
    stay as they are, divided by line feeds. (One document per row of a ``.jsonl`` file keeps blank
    lines inside documents.)
    """
    blocks: list[list[tuple[int, str]]] = [[]]
    for number, line in enumerate(own_lines(path, choice), start=1):
        if line.strip():
            blocks[-1].append((number, line))
        elif blocks[-1]:
            blocks.append([])
    sentences = tuple(
        plain_text(("\n".join(line for _, line in block),), {}, block[0][0])
        for block in blocks
        if block
    )
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def texts_of(fields: Fields, choice: Choice, kind: KindName) -> Sentences:
    """Return records of texts as sentences; arguments and errors as for ``read_texts``."""
    where, origin = fields.where, fields.origin
    if not fields.lines:
        return Sentences(sentences=(), where=where, origin=origin)
    names = list(fields.values)
    texts = _choose_texts(where, kind, choice, names, _text_columns(fields, choice))
    label = None
    if kind != "language-modelling" and not choice.texts_alone:
        free = [name for name in names if name not in texts and _may_label(fields, name)]
        label = choose_label(where, choice, names, free)
    named = None if label is None else _labels(fields, label, kind)
    kept: Sequence[int] = range(len(fields.lines))
    if named is not None:
        kept = _labelled(fields, str(label), named, kind, skip=choice.skip_unlabelled)
    sentences = tuple(
        _sentence(fields, number, texts, {} if named is None else {str(label): named[number]})
        for number in kept
    )
    return Sentences(sentences=sentences, where=where, origin=origin, unit=fields.unit)


def _choose_texts(
    where: str, kind: KindName, choice: Choice, names: Sequence[str], texts: Sequence[str]
) -> tuple[str, ...]:
    """Choose the text columns; where a regression leaves them open, say that it may have two."""
    try:
        return choose_texts(where, kind, choice, names, texts)
    except OptionError as error:
        if kind != "regression" or choice.text is not None:
            raise
        pair = ",".join(texts[:2])
        raise OptionError(f"{error} Two texts per example are given as --text {pair}.") from None


def _text_columns(fields: Fields, choice: Choice) -> list[str]:
    """Return the columns of strings that are not called as labels or ids are."""
    names = list(fields.values)
    label = choice.label
    known_by = names if choice.texts_alone else [*names, *map(str, range(-len(names), len(names)))]
    if label is not None and label in known_by:
        label = names[place_of(fields.where, "--label", label, names)]
    return [
        name
        for name, values in fields.values.items()
        if not (name.lower() in LABELS or is_id(name) or name == label) and _is_prose(values)
    ]


def _is_prose(values: Sequence[Any]) -> bool:
    filled = [value for value in values if value is not None]
    strings = bool(filled) and all(isinstance(value, str) for value in filled)
    return strings and not all(is_number(value) for value in filled)


def _may_label(fields: Fields, name: str) -> bool:
    filled = [value for value in fields.values[name] if value is not None]
    plain = all(isinstance(value, str | int | float) for value in filled)
    return not is_id(name) and bool(filled) and plain


def _sentence(
    fields: Fields, number: int, texts: Sequence[str], labels: dict[str, str]
) -> Sentence:
    for name in texts:
        value = fields.values[name][number]
        if not isinstance(value, str | None):
            found = type(value).__name__
            place = fields.place(number)
            raise DataError(f"{place}: expected text in column {name!r}, found {found}.")
        if not (value or "").strip():
            raise DataError(f"{fields.place(number)}: no text in column {name!r}.")
    row = tuple(fields.values[name][number] for name in texts)
    return plain_text(row, labels, fields.lines[number], fields.id_of(number))


def _labels(fields: Fields, column: str, kind: KindName) -> list[str] | None:
    """Return the labels of a column by name; None if no row has one."""
    convert = _number if kind == "regression" else _class
    labels = [convert(fields, n, column) for n in range(len(fields.lines))]
    unlabelled = marks_among(labels) | {NO_LABEL}
    return None if unlabelled.issuperset(labels) else labels


def _marks(labels: Sequence[str], kind: KindName) -> set[str]:
    """Return the labels of a column that say that there is none.

    A number may well be -1, or below; -100 is one if others are negative too.
    """
    marks = marks_among(labels) | {NO_LABEL}
    if kind != "regression":
        return marks
    others = [float(label) for label in set(labels) - marks if is_number(label)]
    return marks - {"-1", "nan"} - ({"-100"} if any(other < 0 for other in others) else set())


def _labelled(
    fields: Fields, column: str, labels: Sequence[str], kind: KindName, *, skip: bool
) -> list[int]:
    """Return the rows that have a label, or refuse those that have none.

    Raises:
        DataError: some have none, and they are not to be left out.
    """
    marks = _marks(labels, kind)
    without = [n for n, label in enumerate(labels) if label in marks]
    if without and not skip:
        mark = labels[without[0]]
        found = f" ({mark} means none; a class needs another name)" if mark else ""
        raise DataError(
            f"{fields.place(without[0])}: no label in column {column!r}{found}, but others have "
            "one; label all rows of a split or none, or leave such rows out in every command with "
            "--skip-unlabelled."
        )
    if without:
        warn_once(
            logger,
            "%s: %d of %d rows have no label in column %r and are left out (--skip-unlabelled).",
            fields.where,
            len(without),
            len(labels),
            column,
        )
    return [n for n, label in enumerate(labels) if label not in marks]


def _class(fields: Fields, number: int, column: str) -> str:
    """Return a class by name; "" where there is none."""
    value = fields.values[column][number]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        # Whole numbers become floats where a column has gaps.
        return str(int(value))
    if not isinstance(value, str | int):
        raise DataError(
            f"{fields.place(number)}: expected a class in column {column!r}, found {value!r}. "
            "For numbers use --kind regression."
        )
    return trim(str(value))


def _number(fields: Fields, number: int, column: str) -> str:
    """Return a number as text; "" where there is none."""
    value = fields.values[column][number]
    text = "" if value is None else trim(str(value))
    return str(int(float(text))) if is_number(text) and float(text) in NUMBERS else text
