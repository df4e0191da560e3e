"""Columns out of records: of JSON files, whose lines messages tell, and of examples in memory.

``pyarrow`` and ``pandas`` would read JSON too, but not tell the line a value begins in, nor take a
column whose values have several types, or whole numbers of any size.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from probekit.base.kinds import EXAMPLES_IN_MEMORY
from probekit.errors import DataError, OptionError
from probekit.tasks.formats.fields import Fields, dataset_fields
from probekit.tasks.formats.file_parts import File
from probekit.tasks.formats.text_lines import format_of, own_lines
from probekit.tasks.task import Choice

_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")

_FORMS = {
    ("words",): "a list of words",
    ("text",): "a text",
    ("text", "text_pair"): "a pair of texts",
    (): "a dictionary of columns",
}
"""Columns of an example in memory, besides that of its label, and what it is called then."""
_EXPECTED = (
    "Expected a list of (words, tags), of texts, of (text, label) or of ((first, second), label), "
    "a datasets.Dataset, or a pandas.DataFrame."
)


def load_jsonl(path: File, choice: Choice) -> Fields:
    """Read a ``.jsonl`` file: one object per line.

    Raises:
        DataError: a line that is no JSON object.
    """
    numbered = enumerate(own_lines(path), start=1)
    lines = [(number, line) for number, line in numbered if line.strip(" \t")]
    return _of_objects(path, [(n, _decoded(_DECODER.decode, path, n, line)) for n, line in lines])


def load_json(path: File, choice: Choice) -> Fields:
    """Read a ``.json`` file: a list of objects, one object after another, or one of columns.

    An object of columns gives each a list of values, or an object from the row's name to its value,
    as pandas writes it.

    Raises:
        DataError: it holds something else.
    """
    values = list(_values("\n".join(own_lines(path)), path))
    first = values[0][1] if len(values) == 1 else None
    if isinstance(first, list):
        return _of_objects(path, [*enumerate(first, start=1)], unit="row")
    columns = _columns(first, choice) if isinstance(first, dict) else None
    if columns is None:
        return _of_objects(path, values)
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise DataError(f"{path}: columns of different lengths ({listed}); expected one length.")
    return Fields.of_file(path, columns)


def _columns(value: Mapping[str, Any], choice: Choice) -> dict[str, list[Any]] | None:
    """Return the columns of an object that holds nothing else; None where it is a record."""
    if not all(isinstance(column, list | dict) for column in value.values()):
        return None
    columns = {
        name: list(column.values()) if isinstance(column, dict) else column
        for name, column in value.items()
    }
    # Lists of strings are the words and labels of one sentence, where words are labelled.
    of_words = choice.of_kind.per == "word"
    nested = any(isinstance(item, list) for column in columns.values() for item in column)
    return columns if columns and (nested or not of_words) else None


def _values(text: str, path: File) -> Iterator[tuple[int, Any]]:
    """Return values that follow each other, each with the line it begins in."""
    position, line, seen = 0, 1, 0
    while (blanks := _BLANKS.match(text, position)) and (position := blanks.end()) < len(text):
        line, seen = line + text.count("\n", seen, position), position
        value, position = _decoded(_DECODER.raw_decode, path, line, text, position)
        yield line, value


def _decoded(decode: Callable[..., Any], path: File, line: int, *text: str | int) -> Any:
    """Return what a function of ``json`` makes of a text.

    Args:
        decode: the function.
        path: the file, for messages.
        line: where the value begins.
        text: what the function takes.

    Raises:
        DataError: it is not JSON, or holds what Python cannot take (half of a surrogate pair, a
            number of thousands of digits, lists nested a thousand times).
    """
    try:
        value = decode(*text)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        fault = "a whole number with more digits than Python reads; write it as a string"
        if isinstance(error, json.JSONDecodeError):
            line, fault = max(line, error.lineno), f"not JSON ({error.msg})"
        elif isinstance(error, UnicodeEncodeError):
            fault = "half of a surrogate pair (\\u escape) is not a character"
        elif isinstance(error, RecursionError):
            fault = "lists or objects nested too deeply to be read"
        raise DataError(f"{path}, line {line}: {fault}.") from error
    return value


def _of_objects(
    path: File, numbered: Sequence[tuple[int, Any]], unit: Literal["line", "row"] = "line"
) -> Fields:
    """Return the columns of objects, each with its line or row."""
    for number, value in numbered:
        if not isinstance(value, dict):
            kind = type(value).__name__
            expected = "one JSON object per line" if format_of(path) == ".jsonl" else "JSON objects"
            raise DataError(f"{path}, {unit} {number}: expected {expected}, found {kind}.")
    values = by_column([row for _, row in numbered])
    return Fields.of_file(path, values, None if unit == "row" else [line for line, _ in numbered])


def by_column(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of records; None where one lacks a value."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def value_fields(
    examples: object, where: str, *, label: str | None = None, kind: str | None = None
) -> Fields:
    """Return the columns of one split in memory.

    A list has the columns ``words``, or ``text`` and perhaps ``text_pair``, and one of labels.

    Args:
        examples: of the split.
        where: what they are, for messages ("examples['train']").
        label: what the labels of a list are called; ``label`` if None.
        kind: the kind of the labels; a tuple of two texts is a pair, or a text with its label.

    Raises:
        DataError: they are no examples, or not all of one form.
        OptionError: ``label`` is the name of a column of text.
    """
    if _is(examples, "datasets", "Dataset"):
        return dataset_fields(examples, where, EXAMPLES_IN_MEMORY)
    unit: Literal["row", "example"] = "row"
    if _is(examples, "pandas", "DataFrame"):
        columns = _frame_columns(examples, where)
    else:
        unit, items = "example", _listed(examples, where)
        columns = _list_columns(items, where, label or "label", kind)
    rows = range(1, len(next(iter(columns.values()), ())) + 1)
    return Fields(where=where, origin=EXAMPLES_IN_MEMORY, lines=rows, values=columns, unit=unit)


def _is(value: object, library: str, name: str) -> bool:
    """Say whether a value is of a class of a library, without importing it."""
    classes = type(value).__mro__
    return any(c.__name__ == name and c.__module__.split(".")[0] == library for c in classes)


def _frame_columns(frame: Any, where: str) -> dict[str, list[Any]]:
    """Return the columns of a pandas frame.

    What it lacks (NaN, NA, None) is empty text, as in a table; in a column of lists it is None.
    """
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise DataError(f"{where}: two columns have the same name; rename one.")
    filled = frame.astype(object).where(frame.notna(), None)
    columns = filled.set_axis(names, axis=1).to_dict("list")
    plain = {name: list(map(_plain, values)) for name, values in columns.items()}
    for name, values in plain.items():
        if not any(isinstance(value, list) for value in values):
            plain[name] = ["" if value is None else value for value in values]
    return plain


def _plain(value: Any) -> Any:
    """Return a value without the types of NumPy, torch and pandas; None for one that is missing."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "tolist"):  # arrays, tensors, and the scalars of NumPy
        value = value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _listed(examples: object, where: str) -> list[Any]:
    """Return examples as a list.

    Raises:
        DataError: they are nothing of the kind, or a tuple, whose parts are no examples as a rule.
    """
    kind = type(examples).__name__
    if _is(examples, "datasets", "IterableDataset"):
        raise DataError(
            f"{where}: {kind} is a stream of unknown length; take the part that you want: "
            "datasets.Dataset.from_list(list(stream.take(1000)))."
        )
    if isinstance(examples, tuple):
        raise DataError(
            f"{where}: found a tuple of {len(examples)}. {_EXPECTED} Join separate texts and "
            "labels with list(zip(texts, labels))."
        )
    if isinstance(examples, str | bytes | Mapping) or not isinstance(examples, Iterable):
        raise DataError(f"{where}: found {kind}. {_EXPECTED}")
    return list(examples)


def _list_columns(
    items: Sequence[Any], where: str, label: str, kind: str | None
) -> dict[str, list[Any]]:
    """Return the columns of a list of examples, all of one form."""
    records: list[dict[str, Any]] = []
    form: tuple[str, ...] | None = None
    for number, item in enumerate(items, start=1):
        at = f"{where}, example {number}"
        if isinstance(item, Mapping):
            columns: tuple[str, ...] = ()
            records.append({str(name): _plain(value) for name, value in item.items()})
        else:
            columns, texts, tags = _parts(item, at, kind)
            if label in columns:
                raise OptionError(f"--label {label} is the text column; choose another.")
            records.append(dict(zip((*columns, label), (*texts, tags), strict=True)))
        form = columns if form is None else form
        if columns != form:
            raise DataError(
                f"{at} is {_FORMS[columns]}, but the first is {_FORMS[form]}; all examples of a "
                "split need the same form."
            )
    by_name = by_column(records)
    unlabelled = form and all(tags is None for tags in by_name[label])
    return {name: values for name, values in by_name.items() if not (unlabelled and name == label)}


def _parts(item: Any, where: str, kind: str | None) -> tuple[tuple[str, ...], Sequence[Any], Any]:
    """Return the columns of an example, what stands in them, and its label or labels (or None).

    Raises:
        DataError: it has no such form.
    """
    is_tuple, item = isinstance(item, tuple), _plain(item)
    strings = isinstance(item, list) and all(isinstance(part, str) for part in item)
    match item:
        case str():
            return ("text",), [item], None
        case [*words] if strings and not is_tuple:
            return ("words",), [words], None
        case [str(), str()] if kind == "pair":
            return ("text", "text_pair"), item, None
        case [str() as text, [*labels]] if kind == "multilabel":
            return ("text",), [text], labels
        case [str(), [*tags]]:
            raise DataError(
                f"{where}: a text with {len(tags)} labels. Labels of words need the words: "
                "(text.split(), tags). Several labels of a text need kind='multilabel'."
            )
        case [str() as text, label]:
            return ("text",), [text], label
        case [[*words], (list() | None) as tags]:
            return ("words",), [words], tags
        case [[str(), str()] as texts, label]:
            return ("text", "text_pair"), texts, label
        case [[*words], _]:
            raise DataError(
                f"{where}: {len(words)} words with one label. Give every word a label, or give "
                "the text as one string, or a pair as two."
            )
        case [*parts]:
            raise DataError(f"{where}: found {len(parts)} parts. {_EXPECTED}")
    raise DataError(f"{where}: found {type(item).__name__}. {_EXPECTED}")
