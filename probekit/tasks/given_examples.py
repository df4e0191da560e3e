"""The user's own examples in memory: the same columns and rules as those of files."""

import logging
import math
import re
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

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair."""


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
        corpus = read_fields(self.splits[split], self.choice)
        for sentence in corpus.sentences:
            for number, word in enumerate(sentence.words, start=1):
                if not word.strip():
                    fault = f"word {number} is empty ({word!r}); leave it out, with its label."
                    raise corpus.fault(sentence, fault)
            for text in (*sentence.words, sentence.text or "", sentence.text_pair or ""):
                if _HALF.search(text):
                    fault = f"{text!r} holds half of a surrogate pair, no character."
                    raise corpus.fault(sentence, fault)
        return corpus


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
    keys: dict[str, str] = {}
    for key in examples:
        split = split_of(key) if isinstance(key, str) else None
        if split is None:
            raise DataError(
                f"examples: {key!r} names no split; expected train, dev (validation) or test. "
                "Columns of one split are given as a datasets.Dataset or a pandas.DataFrame."
            )
        if split in keys:
            raise DataError(f"examples: {keys[split]!r} and {key!r} are both {split}; give one.")
        keys[split] = key
    if not keys:
        raise DataError("examples: found no split; give train, as in {'train': [...]}.")
    return {split: examples[keys[split]] for split in SPLITS if split in keys}


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
        if label is not None:
            labels += [value for value in fields.values[label] if value is not None]
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
    """Return tagging, sentence or pair."""
    if list_columns(fields):
        return "tagging"
    try:  # a regression takes one text or two
        texts = choose_texts(fields, replace(choice, kind="regression"))
    except OptionError:  # said again, and in the words of the kind, where the texts are read
        return "sentence"
    return "pair" if len(texts) == 2 else "sentence"
