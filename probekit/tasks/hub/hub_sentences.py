"""The rows of a loaded Hub data set as sentences, with labels by name."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from probekit.errors import DataError
from probekit.tasks.class_labels import class_names
from probekit.tasks.hub.repository import HubSource
from probekit.tasks.numeric_labels import score_name
from probekit.tasks.own.unlabelled import DASH, MARKS, NUMBERS
from probekit.tasks.sentences import Sentence, plain_text

Labels = Mapping[str, Sequence[tuple[str, ...]]]
UNLABELLED = frozenset({*NUMBERS, *MARKS, DASH, None})
"""Labels that say that there is none, where a column has no other."""


def hub_sentences(dataset: Any, source: HubSource, where: str) -> tuple[Sentence, ...]:
    """Return the rows of a ``datasets.Dataset``.

    Args:
        dataset: one split.
        source: what its columns are called.
        where: the repository as messages name it.

    Raises:
        DataError: a column is missing, or holds what is no label.
    """
    wanted = [*(source.texts or (source.words,)), *source.labels.values()]
    missing = [name for name in wanted if name not in dataset.column_names]
    if missing:
        found = ", ".join(dataset.column_names)
        raise DataError(f"{where} has no column {', '.join(missing)} (it has: {found})")
    columns = {column: _label_names(dataset, column, source, where) for column in source.labels}
    kept = {column: rows for column, rows in columns.items() if rows is not None}
    return (_texts if source.texts else _words)(dataset, source, kept)


def _words(dataset: Any, source: HubSource, labels: Labels) -> tuple[Sentence, ...]:
    named = next((name for name in source.ids if name in dataset.column_names), None)
    words = dataset[source.words][:]
    ids = dataset[named][:] if named else [None] * len(words)
    return tuple(
        Sentence(
            tuple(row),
            {column: rows[number] for column, rows in labels.items()},
            (number + 1,) * max(len(row), 1),
            None if ids[number] is None else str(ids[number]),
        )
        for number, row in enumerate(words)
    )


def _texts(dataset: Any, source: HubSource, labels: Labels) -> tuple[Sentence, ...]:
    texts = zip(*(dataset[name][:] for name in source.texts), strict=True)
    return tuple(
        plain_text(row, {column: rows[number][0] for column, rows in labels.items()}, number + 1)
        for number, row in enumerate(texts)
    )


def _label_names(
    dataset: Any, column: str, source: HubSource, where: str
) -> list[tuple[str, ...]] | None:
    """Return a column's labels by name; None if the split has none (-1 or "_" throughout)."""
    feature = source.labels[column]
    rows = [row if isinstance(row, list) else [row] for row in dataset[feature][:]]
    flat = {label for row in rows for label in row}
    if flat <= UNLABELLED:
        return None
    if column in source.numbers:
        return [tuple(map(score_name, row)) for row in rows]
    if not all(isinstance(label, str) for label in flat):
        names = class_names(dataset.features[feature]) or source.names.get(column)
        marks = frozenset() if source.texts else NUMBERS
        rows = [_named(row, names, feature, where, marks) for row in rows]
    other = source.renamed.get(column, {})
    return [tuple(other.get(label, label) for label in row) for row in rows]


def _named(
    row: Sequence[Any],
    names: Sequence[str] | None,
    feature: str,
    where: str,
    marks: Collection[int],
) -> list[str]:
    """Return the names of label numbers; marks for no label stay, as text."""
    if names is None:
        raise DataError(f"{where}: column {feature!r} holds numbers without names")
    known = {*range(len(names)), *marks}
    wrong = [label for label in row if not isinstance(label, int) or label not in known]
    if wrong:
        raise DataError(f"{where}: column {feature!r} holds {wrong[0]!r}, not one of {len(names)}")
    return [str(label) if label in marks else names[label] for label in row]
