"""Examples in memory as the user's own data: read by the rules of files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probekit.base.kinds import SPLITS
from probekit.errors import DataError
from probekit.tasks.formats.fields import Fields
from probekit.tasks.formats.records import value_fields
from probekit.tasks.formats.text_lines import split_of
from probekit.tasks.kind_choice import kind_of_examples
from probekit.tasks.own_examples import read_fields
from probekit.tasks.sentences import Sentences
from probekit.tasks.spans import source_columns
from probekit.tasks.task import Choice, Task
from probekit.tasks.user_files import OwnCorpus, own_task

_SURROGATE = re.compile("[\ud800-\udfff]")
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
                if _SURROGATE.search(text):
                    fault = f"{text!r} holds half of a surrogate pair, which is not a character."
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
    choice.refuse(("separator", "sentences"), "examples in memory")
    label = choice.label and source_columns(choice.label)[0]
    given = {
        split: value_fields(value, f"examples[{split!r}]", label=label, kind=choice.kind)
        for split, value in _by_split(examples).items()
    }
    for split, fields in given.items():
        if not fields.lines:
            raise DataError(f"examples[{split!r}] is empty: give some, or leave that split out.")
    if choice.kind is None:
        choice = replace(choice, kind=kind_of_examples(given, choice))
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
                f"examples: {key!r} is not a split; expected train, dev (validation) or test. "
                "Give the columns of one split as a datasets.Dataset or a pandas.DataFrame."
            )
        if split in keys:
            raise DataError(f"examples: {keys[split]!r} and {key!r} are both {split}; give one.")
        keys[split] = key
    if not keys:
        raise DataError("examples: found no split; give train, as in {'train': [...]}.")
    return {split: examples[keys[split]] for split in SPLITS if split in keys}
