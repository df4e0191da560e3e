"""The user's own examples in memory: the same columns and rules as those of files."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probekit.base.kinds import SPLITS
from probekit.base.notices import warn_once
from probekit.errors import DataError, OptionError
from probekit.tasks.column_choice import choose_columns, choose_texts, list_columns
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.file_names import split_of
from probekit.tasks.formats.records import value_fields
from probekit.tasks.own_examples import read_fields
from probekit.tasks.sentences import Sentences
from probekit.tasks.task import Task
from probekit.tasks.text_options import Choice
from probekit.tasks.user_files import OwnCorpus, own_task

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class GivenExamples(OwnCorpus):
    """Examples in memory, read with the user's columns.

    Attributes:
        splits: split to its columns.
    """

    splits: Mapping[str, Fields]

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Return the examples of ``split``.

        Raises:
            DataError: a text or word that is empty or no valid Unicode, or what ``read_fields``
                refuses.
        """
        assert data is None, "examples in memory have no folder"
        found = read_fields(self.splits[split], self.choice)
        for one in found.sentences:
            for place, text in enumerate((*one.words, one.text or "", one.text_pair or "")):
                if place < len(one.words) and not text.strip():
                    raise DataError(
                        f"{found.place(one)}: word {place + 1} is empty ({text!r}); leave it out, "
                        "with its label."
                    )
                _check_unicode(found.place(one), text)
        return found


def examples_task(examples: Any, name: str, choice: Choice) -> Task:
    """Return the task that examples in memory are.

    Args:
        examples: of the train split, or by split.
        name: what the task is called.
        choice: how they are read; without a kind it is what the examples show: words in lists are
            tagging, two texts a pair, numbers with a point a regression.

    Raises:
        DataError: a split is empty, or its examples have no form that is known, or another one
            than those of another split.
        OptionError: an option of files, or the choice of columns is left open.
    """
    choice.refuse(("separator", "encoding", "sentences"), "examples in memory")
    given = {
        split: value_fields(value, f"examples[{split!r}]", label=choice.label, kind=choice.kind)
        for split, value in _by_split(examples).items()
    }
    for split, fields in given.items():
        if not fields.lines:
            raise DataError(f"examples[{split!r}] is empty: give some, or leave that split out.")
    if choice.kind is None:
        choice = replace(choice, kind=_kind(given, choice))
    return own_task(name, name, GivenExamples(splits=given, choice=choice), by_text=True)


def _by_split(examples: Any) -> dict[str, Any]:
    """Return examples by our names of the splits, train first.

    Raises:
        DataError: a key names no split, two name one, or there is none.
    """
    if not isinstance(examples, Mapping):
        return {"train": examples}
    found: dict[str, str] = {}
    for key in examples:
        split = split_of(key) if isinstance(key, str) else None
        if split is None:
            raise DataError(
                f"examples: {key!r} names no split; expected train, dev (validation) or test. "
                "Columns of one split are given as a datasets.Dataset or a pandas.DataFrame."
            )
        if split in found:
            raise DataError(f"examples: {found[split]!r} and {key!r} are both {split}; give one.")
        found[split] = key
    if not found:
        raise DataError("examples: found no split; give train, as in {'train': [...]}.")
    return {split: examples[found[split]] for split in SPLITS if split in found}


def _kind(given: Mapping[str, Fields], choice: Choice) -> str:
    """Return the kind of examples by what they hold, the same for all splits."""
    kinds = {split: _kind_of_text(fields, choice) for split, fields in given.items()}
    first, kind = next(iter(kinds.items()))
    for split, other in kinds.items():
        if other != kind:
            raise DataError(
                f"examples[{first!r}] is read as kind {kind} and examples[{split!r}] as {other}; "
                "all splits have one kind. If one is read wrongly, say which it is with --kind."
            )
    if kind == "tagging":
        return kind
    asked = replace(choice, kind=kind, optional=True)
    labels = []
    for fields in given.values():
        label = choose_columns(fields, asked).label
        labels += [] if label is None else [one for one in fields.values[label] if one is not None]
    if _are_numbers(labels):
        return "regression"
    if any(type(label) is int for label in labels):
        warn_once(
            logger,
            "examples: whole numbers as labels are read as classes; kind='regression' reads them "
            "as numbers.",
        )
    return kind


def _kind_of_text(fields: Fields, choice: Choice) -> str:
    """Return tagging, sentence or pair."""
    if list_columns(fields):
        return "tagging"
    try:  # a regression takes one text or two
        texts = choose_texts(fields, replace(choice, kind="regression"))
    except OptionError:  # said again, and in the words of the kind, where the texts are read
        return "sentence"
    return "pair" if len(texts) == 2 else "sentence"


def _are_numbers(labels: list[Any]) -> bool:
    """Say whether labels are numbers, of which one is written with a point."""
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in labels)
    return numbers and any(isinstance(one, float) and math.isfinite(one) for one in labels)


def _check_unicode(place: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{place}: {text!r} holds half of a surrogate pair, no character."
        ) from error
