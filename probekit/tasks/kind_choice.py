"""The kind of the user's own data where none is typed: what its columns, or examples, show."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from probekit.base.notices import warn_once
from probekit.errors import DataError, OptionError, ProbekitError
from probekit.tasks.column_choice import (
    WORDS,
    check_lists,
    choose_columns,
    choose_texts,
    list_columns,
)
from probekit.tasks.formats.fields import Fields
from probekit.tasks.schemes import is_number
from probekit.tasks.spans import has_targets
from probekit.tasks.task import Choice

logger = logging.getLogger(__name__)

_NAMES_OF_WORDS = frozenset(WORDS) - {"text"}


def kind_shown(read: Callable[[], Fields | None], choice: Choice) -> str | None:
    """Return the kind that a split is of for certain; None where it could be of several.

    Args:
        read: returns its columns as a table of texts; None where it can only be words.
        choice: how it is read.
    """
    try:
        fields = read()
        if fields is None or _NAMES_OF_WORDS & {name.lower() for name in fields.values}:
            return "tagging"
        kind = _kind_of_text(fields, choice)
    except ProbekitError:  # what was said of it as words is as true
        return "tagging"
    if kind in ("span", "tagging"):
        return kind
    if fields.starts and not any(map(_are_texts, fields.values.values())):
        return None
    try:
        label = choose_columns(fields, replace(choice, kind=kind)).label
    except ProbekitError:  # said again where the texts are read
        return kind
    labels = [str(value) for value in fields.values.get(label or "", ()) if value not in (None, "")]
    if any(sign in value for value in labels for sign in ";|["):  # of a text one, or several
        return None
    if labels and all(map(is_number, labels)) and not all(float(n).is_integer() for n in labels):
        return "regression"
    return kind if labels else None


def _are_texts(cells: Sequence[Any]) -> bool:
    """Say whether most cells of a table hold several words, and others than the row before.

    A sentence may stand beside each of its words.
    """
    texts = [str(cell or "").strip() for cell in cells]
    return 2 * sum(" " in text != before for before, text in pairwise(["", *texts])) > len(texts)


def kind_of_examples(given: Mapping[str, Fields], choice: Choice) -> str:
    """Return the kind of examples by what they hold, the same for all splits."""
    kinds = {split: _kind_of_text(fields, choice) for split, fields in given.items()}
    first, kind = next(iter(kinds.items()))
    for split, other in kinds.items():
        if other != kind:
            raise DataError(
                f"examples[{first!r}] is read as kind {kind} and examples[{split!r}] as {other}, "
                "but all splits need the same kind. If one was recognised wrongly, give the kind."
            )
    if kind in ("span", "tagging"):
        return kind
    asked = replace(choice, kind=kind, optional=True)
    labels = []
    for fields in given.values():
        label = choose_columns(fields, asked).label
        if label is not None:
            labels += [value for value in fields.values[label] if value not in (None, "")]
    numbers = all(isinstance(label, int | float) for label in labels) and bool not in map(
        type, labels
    )
    if numbers and any(isinstance(label, float) and math.isfinite(label) for label in labels):
        return "regression"
    if any(type(label) is int for label in labels):
        warn_once(
            logger,
            "examples: whole numbers as labels are read as classes; kind='regression' reads them "
            "as numbers.",
        )
    return kind


def _kind_of_text(fields: Fields, choice: Choice) -> str:
    """Return tagging, span, sentence or pair."""
    if has_targets(fields):
        return "span"
    if list_columns(fields):
        check_lists(fields, choice)
        return "tagging"
    try:  # a regression takes one text or two
        texts = choose_texts(fields, replace(choice, kind="regression"))
    except OptionError:  # said again, and in the words of the kind, where the texts are read
        return "sentence"
    return "pair" if len(texts) == 2 else "sentence"
