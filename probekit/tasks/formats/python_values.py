"""The columns of examples that come as Python values: lists, ``datasets``, frames of pandas."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from probekit.base.kinds import EXAMPLES_IN_MEMORY
from probekit.errors import DataError, OptionError
from probekit.tasks.formats.fields import Fields, dataset_fields

Form = Literal["words", "text", "pair", "record"]
_IN_WORDS: Mapping[Form, str] = {
    "words": "a list of words",
    "text": "a text",
    "pair": "a pair of texts",
    "record": "a dictionary of columns",
}
_COLUMNS: Mapping[Form, tuple[str, ...]] = {
    "words": ("words",), "text": ("text",), "pair": ("text", "text_pair"), "record": (),
}  # fmt: skip
_EXPECTED = (
    "Expected a list of (words, tags), of texts, of (text, label) or of ((first, second), label), "
    "a datasets.Dataset, or a pandas.DataFrame."
)

Labelled = tuple[Form, Any, Any]
"""Form of an example, its text or texts, and its label or labels (None: it has none)."""


def value_fields(
    examples: object, where: str, *, label: str | None = None, kind: str | None = None
) -> Fields:
    """Return the columns of one split.

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
    if _is(examples, "pandas", "DataFrame"):
        return _frame_fields(examples, where)
    if _is(examples, "datasets", "Dataset"):
        return dataset_fields(examples, where, EXAMPLES_IN_MEMORY)
    return _list_fields(_listed(examples, where), where, label, kind)


def _is(value: object, library: str, name: str) -> bool:
    """Say whether a value is of a class of a library that need not be installed."""
    classes = type(value).__mro__
    return any(c.__name__ == name and c.__module__.split(".")[0] == library for c in classes)


def plain(value: Any) -> Any:
    """Return a value without the types of NumPy, torch and pandas; None for one that is missing."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "tolist"):  # arrays, tensors, and the scalars of NumPy
        value = value.tolist()
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def _frame_fields(frame: Any, where: str) -> Fields:
    """Return the columns of a pandas frame; what it lacks (NaN, NA, None) is None."""
    values = {}
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
        values[str(name)] = [None if missing else plain(value) for value, missing in pairs]
    if len(values) < len(frame.columns):
        raise DataError(f"{where}: two columns have one name; rename one.")
    rows = range(1, len(frame) + 1)
    return Fields(where=where, origin=EXAMPLES_IN_MEMORY, lines=rows, values=values, unit="row")


def _listed(examples: object, where: str) -> list[Any]:
    """Return examples as a list.

    Raises:
        DataError: they are nothing of the kind, or a tuple, whose parts are no examples as a rule.
    """
    found = type(examples).__name__
    if _is(examples, "datasets", "IterableDataset"):
        raise DataError(
            f"{where}: {found} is a stream without an end that is known; take what is wanted of "
            "it: datasets.Dataset.from_list(list(stream.take(1000)))."
        )
    if isinstance(examples, tuple):
        raise DataError(
            f"{where}: found a tuple of {len(examples)}. {_EXPECTED} Texts and labels that lie "
            "apart are joined by list(zip(texts, labels))."
        )
    if isinstance(examples, str | bytes | Mapping) or not isinstance(examples, Iterable):
        raise DataError(f"{where}: found {found}. {_EXPECTED}")
    return list(examples)


def _list_fields(items: Sequence[Any], where: str, label: str | None, kind: str | None) -> Fields:
    """Return the columns of a list of examples, all of one form."""
    found: list[Labelled] = []
    for number, item in enumerate(items, start=1):
        place = f"{where}, example {number}"
        found.append(_read(item, place, kind))
        if found[-1][0] != found[0][0]:
            raise DataError(
                f"{place} is {_IN_WORDS[found[-1][0]]}, and the first is {_IN_WORDS[found[0][0]]}; "
                "all examples of a split have one form."
            )
    form: Form = found[0][0] if found else "text"
    lines = range(1, len(found) + 1)
    if form == "record":
        names = dict.fromkeys(name for _, record, _ in found for name in record)
        values = {name: [record.get(name) for _, record, _ in found] for name in names}
        return Fields(
            where=where, origin=EXAMPLES_IN_MEMORY, lines=lines, values=values, unit="example"
        )
    columns, called = _COLUMNS[form], label or "label"
    if called in columns:
        raise OptionError(
            f"--label {called}: the column of the texts is called so; choose another."
        )
    texts = [text if form == "pair" else (text,) for _, text, _ in found]
    values = {name: [text[n] for text in texts] for n, name in enumerate(columns)}
    if any(given is not None for _, _, given in found):
        values[called] = [given for _, _, given in found]
    return Fields(
        where=where, origin=EXAMPLES_IN_MEMORY, lines=lines, values=values, unit="example"
    )


def _read(item: Any, where: str, kind: str | None) -> Labelled:
    """Return the form, the text and the label of one example.

    Raises:
        DataError: it has no such form.
    """
    if isinstance(item, Mapping):
        return "record", {str(name): plain(value) for name, value in item.items()}, None
    is_tuple, item = isinstance(item, tuple), plain(item)
    if isinstance(item, str):
        return "text", item, None
    if not isinstance(item, list):
        raise DataError(f"{where}: found {type(item).__name__}. {_EXPECTED}")
    texts = all(isinstance(part, str) for part in item)
    if texts and not is_tuple:
        return "words", item, None
    if texts and len(item) == 2:
        return ("pair", item, None) if kind == "pair" else ("text", *item)
    if len(item) != 2:
        raise DataError(f"{where}: found {len(item)} parts. {_EXPECTED}")
    text, label = item
    return _labelled(text, label, where)


def _labelled(text: Any, label: Any, where: str) -> Labelled:
    """Return the form of a text with its label, or of words with theirs."""
    if isinstance(text, str):
        if isinstance(label, list):
            raise DataError(
                f"{where}: a text with {len(label)} labels. Labels of words need the words: "
                "(text.split(), tags)."
            )
        return "text", text, label
    if not isinstance(text, list):
        raise DataError(f"{where}: found {type(text).__name__} as its text. {_EXPECTED}")
    if isinstance(label, list | None):
        return "words", text, label
    if len(text) == 2 and all(isinstance(part, str) for part in text):
        return "pair", text, label
    raise DataError(
        f"{where}: {len(text)} words with one label. Words need a label each, a text is a string, "
        "and a pair of texts has two."
    )
