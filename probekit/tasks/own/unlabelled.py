"""Marks that data sets write where nothing is annotated: no label, and so no class."""

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from probekit.base.notices import warn_once
from probekit.errors import DataError
from probekit.tasks.formats.blanks import trim
from probekit.tasks.sentences import Sentence, Sentences

logger = logging.getLogger(__name__)

NO_LABEL = ""
"""The label of a word that has none: it is neither fitted on nor scored."""

NUMBERS = frozenset({-1, -100})
"""Numbers that stand for no label in unlabelled splits and in losses."""

MARKS = frozenset({"_", "n/a", "nan", "<na>", "#n/a", *map(str, NUMBERS)})
"""Marks of treebanks and of tables in lower case, and those numbers."""

DASH = "-"
"""A mark too, but where other labels are signs it is one of them ("+" and "-", "." and "-")."""


def marks_among(labels: Iterable[str]) -> set[str]:
    """Return those of the labels of a column that say that there is none."""
    names = set(labels)
    found = {name for name in names if name.lower() in MARKS}
    signs = {name for name in names - found if not any(map(str.isalnum, name))} - {DASH, NO_LABEL}
    return found if signs or DASH not in names else found | {DASH}


def settle_labels(found: Sentences, columns: Collection[str]) -> Sentences:
    """Return sentences whose labels of words have no blanks around them and no marks among them.

    A word that is marked as not annotated has the label ``NO_LABEL``; a column that has no other
    is left out. How many such words there are is said.

    Args:
        found: what a reader found.
        columns: the label columns that label words.

    Raises:
        DataError: an empty label.
    """
    for column in columns:
        found = _settled(found, column)
    return found


def _settled(found: Sentences, column: str) -> Sentences:
    trimmed = {
        n: tuple(map(trim, sentence.labels[column]))
        for n, sentence in enumerate(found.sentences)
        if column in sentence.labels
    }
    for n, own in trimmed.items():
        check_filled(found, found.sentences[n], column, own)
    names = {label for labels in trimmed.values() for label in labels}
    marks = set() if column in found.unmarked else marks_among(names)
    if names and names == marks:
        return replace(found, sentences=tuple(_without(one, column) for one in found.sentences))
    n_marked = sum(label in marks for labels in trimmed.values() for label in labels)
    if n_marked:
        warn_once(
            logger,
            "%s: %d words have no label in column %r (%s); they are neither fitted on nor scored.",
            found.where,
            n_marked,
            column,
            ", ".join(sorted(marks)),
        )
    labels = {
        n: tuple(NO_LABEL if label in marks else label for label in own)
        for n, own in trimmed.items()
    }
    return with_labels(found, column, labels)


def with_labels(found: Sentences, column: str, labels: dict[int, tuple[str, ...]]) -> Sentences:
    """Return sentences with other labels in a column, given by their position."""
    sentences = list(found.sentences)
    for n, own in labels.items():
        sentences[n] = replace(sentences[n], labels={**sentences[n].labels, column: own})
    return replace(found, sentences=tuple(sentences))


def _without(sentence: Sentence, column: str) -> Sentence:
    left = {name: labels for name, labels in sentence.labels.items() if name != column}
    return replace(sentence, labels=left)


def check_filled(found: Sentences, sentence: Sentence, column: str, labels: Sequence[str]) -> None:
    """Refuse an empty label among those of a sentence.

    Raises:
        DataError: there is one; the message gives its line.
    """
    if "" in labels:
        place = found.place(sentence, labels.index(""))
        raise DataError(f"{place}: an empty label in column {column!r}.")
