"""The user's own records of words: lists of tokens and lists of labels, one of each per row."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from probekit.errors import DataError
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.text_fields import load_fields
from probekit.tasks.own.column_choice import Choice, only_label, only_text, place_of
from probekit.tasks.sentences import Sentence, Sentences


def read_records(path: Path, choice: Choice) -> Sentences:
    """Read a ``.jsonl``, ``.json`` or ``.parquet`` file, or what ``save_to_disk`` wrote."""
    return sentences_of(load_fields(path, choice), choice)


def sentences_of(fields: Fields, choice: Choice) -> Sentences:
    """Return records of words as sentences.

    Raises:
        OptionError: the choice of columns is left open.
        DataError: no column holds lists of words, or a row's is none.
    """
    where, origin = fields.where, fields.origin
    if not fields.lines:
        return Sentences(sentences=(), where=where, origin=origin)
    lists = [name for name, values in fields.values.items() if _is_list_column(values)]
    names = list(fields.values)
    if choice.text is None:
        word = only_text(where, lists)
    else:
        word = names[place_of(where, "--text", choice.text, names)]
    label = _label(where, choice, names, [name for name in lists if name != word])
    sentences = tuple(_sentence(fields, n, word, label) for n in range(len(fields.lines)))
    return Sentences(sentences=sentences, where=where, origin=origin, unit=fields.unit)


def _label(where: str, choice: Choice, names: Sequence[str], lists: Sequence[str]) -> str | None:
    if choice.texts_alone:
        return None
    if choice.label is None or not lists:
        return only_label(where, lists)
    return names[place_of(where, "--label", choice.label, names)]


def _is_list_column(values: Sequence[Any]) -> bool:
    """Return whether a column holds lists of strings or whole numbers (or nothing).

    An empty place in a list is a fault that is told with its line, and no reason to look elsewhere.
    """
    filled = [value for value in values if value is not None]
    flat = (item for value in filled if isinstance(value, list) for item in value)
    lists = all(isinstance(value, list) for value in filled)
    return bool(filled) and lists and all(isinstance(item, str | int | None) for item in flat)


def _sentence(fields: Fields, number: int, word: str, label: str | None) -> Sentence:
    words = _strings(fields, number, word)
    if words is None:
        raise DataError(f"{fields.place(number)}: no words in column {word!r}.")
    found = None if label is None else _strings(fields, number, label, numbers=True)
    labels = {} if found is None else {str(label): found}
    lines = (fields.lines[number],) * max(len(words), 1)
    return Sentence(words, labels, lines, fields.id_of(number))


def _strings(
    fields: Fields, number: int, name: str, numbers: bool = False
) -> tuple[str, ...] | None:
    """Return one cell as strings; ``numbers`` allows whole numbers, which become their digits."""
    value = fields.values[name][number]
    if value is None:
        return None
    allowed: tuple[type, ...] = (str, int) if numbers else (str,)
    fits = isinstance(value, list) and all(
        isinstance(item, allowed) and not isinstance(item, bool) for item in value
    )
    if not fits:
        expected = "a list of strings or whole numbers" if numbers else "a list of strings"
        raise DataError(f"{fields.place(number)}: expected {expected} in column {name!r}.")
    return tuple(map(str, value))
