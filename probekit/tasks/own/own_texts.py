"""The user's own texts: one text or two, and one label, per example; or running text."""

import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from probekit.base.notices import warn_once
from probekit.errors import DataError
from probekit.tasks.column_choice import LABELS, choose_label, choose_texts, is_id, place_of
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.text_lines import own_lines
from probekit.tasks.label_names import NO_LABEL, NUMBERS, class_text, is_number, marks_among, trim
from probekit.tasks.sentences import Sentence, Sentences, plain_text
from probekit.tasks.text_options import Choice

logger = logging.getLogger(__name__)


def read_running(path: Path, choice: Choice) -> Sentences:
    """Read plain text for language modelling: an example per run of lines between blank lines.

    This is the form in which BERT's own corpora were written: a blank line ends a document. Lines
    stay as they are, divided by line feeds. (One document per row of a ``.jsonl`` file keeps blank
    lines inside documents.)
    """
    blocks: list[list[tuple[int, str]]] = [[]]
    for number, line in enumerate(own_lines(path, choice.encoding), start=1):
        if line.strip():
            blocks[-1].append((number, line))
        elif blocks[-1]:
            blocks.append([])
    filled = (block for block in blocks if block)
    return Sentences.of_file(
        path, (plain_text(("\n".join(line for _, line in own),), {}, own[0][0]) for own in filled)
    )


def texts_of(fields: Fields, choice: Choice) -> Sentences:
    """Return records of texts as sentences, one example per row.

    Args:
        fields: the columns.
        choice: the columns asked for, and the kind: sentence, pair, regression or
            language-modelling (text alone).

    Raises:
        OptionError: the choice of columns is left open, or does not fit the kind.
        DataError: a row without text, a label that is none, or some rows without a label (empty
            or a mark for none, such as -1) among rows with one.
    """
    if not fields.lines:
        return fields.sentences(())
    texts, label = text_columns(fields, choice)
    labels = [] if label is None else _labels(fields, label, choice)
    if label is None or not any(labels):
        return fields.sentences(_sentence(fields, n, texts, {}) for n in range(len(fields.lines)))
    return fields.sentences(
        _sentence(fields, n, texts, {label: own}) for n, own in enumerate(labels) if own
    )


def text_columns(fields: Fields, choice: Choice) -> tuple[tuple[str, ...], str | None]:
    """Return the columns of the texts, and that of their label if there is one.

    Raises:
        OptionError: the choice is left open, or does not fit the kind.
        DataError: no column could hold text.
        UnknownNameError: no column has the name asked for.
    """
    names = list(fields.values)
    texts = choose_texts(fields.where, choice, names, prose_columns(fields, choice))
    if choice.of_kind.per != "text":
        return texts, None
    free = [name for name in names if name not in texts and _may_label(fields, name)]
    several = [n for n in names if n.lower() in LABELS and any(map(_are_several, fields.values[n]))]
    if several and not (free or choice.label or choice.texts_alone):
        raise DataError(
            f"{fields.where}: column {several[0]!r} holds lists of several labels, and a text has "
            "one class. Write a column for each label, and choose one with --label."
        )
    return texts, choose_label(fields.where, choice, names, free)


def prose_columns(fields: Fields, choice: Choice) -> list[str]:
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
    filled = [value for value in values if value not in (None, "")]
    strings = bool(filled) and all(isinstance(value, str) for value in filled)
    return strings and not all(is_number(value) for value in filled)


def _may_label(fields: Fields, name: str) -> bool:
    values = map(_alone, fields.values[name])
    filled = [value for value in values if value not in (None, "")]
    plain = all(isinstance(value, str | int | float) for value in filled)
    return not is_id(name) and bool(filled) and plain


def _are_several(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1


def _alone(value: Any) -> Any:
    """Return what a list of one holds, None of an empty one: a text has one class."""
    if not isinstance(value, list) or _are_several(value):
        return value
    return value[0] if value else None


def _sentence(
    fields: Fields, number: int, texts: Sequence[str], labels: dict[str, str]
) -> Sentence:
    row = tuple(fields.values[name][number] for name in texts)
    for name, value in zip(texts, row, strict=True):
        if not isinstance(value, str | None):
            found = type(value).__name__
            raise DataError(
                f"{fields.place(number)}: expected text in column {name!r}, found {found}."
            )
        if not (value or "").strip():
            raise DataError(f"{fields.place(number)}: no text in column {name!r}.")
    return plain_text(
        row, labels, fields.lines[number], fields.id_of(number), fields.groups_of(number)
    )


def _labels(fields: Fields, column: str, choice: Choice) -> list[str]:
    """Return the label of every row by name; "" where it has none.

    A number may well be -1, or below; -100 is a mark for none if others are negative too.

    Raises:
        DataError: some rows have none, and they are not to be left out.
    """
    numeric = choice.of_kind.targets == "numbers"
    convert: Callable[[Fields, int, str], str] = _number if numeric else _class
    labels = [convert(fields, n, column) for n in range(len(fields.lines))]
    marks = marks_among(labels) | {NO_LABEL}
    if marks.issuperset(labels):
        return [NO_LABEL] * len(labels)
    if numeric:
        others = [float(label) for label in set(labels) - marks if is_number(label)]
        marks -= {"-1", "nan"} | ({"-100"} if any(other < 0 for other in others) else set())
    without = [n for n, label in enumerate(labels) if label in marks]
    if without and not choice.skip_unlabelled:
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
            f"{fields.where}: {len(without)} of {len(labels)} rows have no label in column "
            f"{column!r} and are left out (--skip-unlabelled).",
        )
    return [NO_LABEL if label in marks else label for label in labels]


def _class(fields: Fields, number: int, column: str) -> str:
    """Return a class by name; "" where there is none."""
    value = _alone(fields.values[column][number])
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    text = class_text(value)
    if not isinstance(text, str):
        raise DataError(
            f"{fields.place(number)}: expected a class in column {column!r}, found {value!r}. "
            "For numbers use --kind regression."
        )
    return trim(text)


def _number(fields: Fields, number: int, column: str) -> str:
    """Return a number as text; "" where there is none."""
    value = _alone(fields.values[column][number])
    text = "" if value is None else trim(str(value))
    return str(int(float(text))) if is_number(text) and float(text) in NUMBERS else text
