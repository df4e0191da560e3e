"""Match sequences with the examples of a split: what comes of it, and word by word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Int64

from probekit.base.numbers.ragged import bounds_of
from probekit.data.encoded import EncodedSplit
from probekit.errors import DataError
from probekit.extraction.imports.sequences import Sequences
from probekit.tasks import Split

Specials = Literal["present", "absent", "stripped"]
"""Whether rows of special tokens are there; if not, whether the model read them all the same."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Matched:
    """A split as the producer of the states read it, and the sequence of each of its windows.

    Attributes:
        encoded: the split; a sequence is a window.
        sequence: the number of each window's sequence.
        special_tokens: whether rows of special tokens are there; None where there are none.
        ended: whether every sequence has the special tokens of its end.
    """

    encoded: EncodedSplit
    sequence: Int64[np.ndarray, " windows"]
    special_tokens: Specials | None
    ended: bool = True


def match_words(split: Split, sequences: Sequences) -> Matched:
    """Match sequences whose rows are words, or are of words, with the sentences of a split.

    Raises:
        DataError: a sentence is missing or has other words, or more or fewer.
    """
    examples = split.examples
    _check_words(split, sequences)
    check_count(split, sequences)
    owners, cut = [], 0
    for number, example in enumerate(examples):
        rows, count = int(sequences.lengths[number]), len(example.words)
        if sequences.form == "words":
            if rows != count:
                raise DataError(
                    f"{sequences.name(number)}: {rows} rows, and example {example.id} has {count} "
                    f"words ({' '.join(example.words)[:80]}...). Expected a row for each word."
                )
            owners.append(np.arange(count))
            continue
        words = sequences.word_ids(number, count)
        cut += count - 1 - int(words.max(initial=-1))
        owners.append(words)
    lengths = sequences.lengths[: len(examples)]
    read = lengths > 0
    encoded = EncodedSplit(
        ids=tuple(example.id for example in examples),
        subwords=np.full(int(lengths.sum()), -1, np.int32),
        word_map=joined(owners),
        window_lengths=lengths[read].astype(np.int32),
        example_windows=bounds_of(read.astype(np.int64)),
        example_words=bounds_of(np.array([len(example.words) for example in examples], np.int64)),
        cut={"truncated_words": cut},
    )
    return Matched(encoded=encoded, sequence=np.flatnonzero(read), special_tokens=None)


def _check_words(split: Split, sequences: Sequences) -> None:
    if any(example.text is not None for example in split.examples):
        raise DataError(
            f"{sequences.where}: its rows are of words, and the texts of {split.name} are not "
            "split into words. Import states with token ids."
        )


def check_count(split: Split, sequences: Sequences) -> None:
    """Refuse sequences that cannot be those of the examples in their places.

    Raises:
        DataError: they are fewer, or more than those of a whole split.
    """
    count, wanted = len(sequences), len(split.examples)
    if count < wanted or (count > wanted and split.limit is None):
        raise DataError(
            f"{sequences.where}: {count:,} sequences, and {split.name} has {wanted:,} examples. "
            "Expected one for each, in the same order."
        )


def joined(parts: Sequence[Int64[np.ndarray, " _"]]) -> Any:
    """Return lists of numbers one after the other; of none, an empty one."""
    return np.concatenate([*parts, np.empty(0, np.int32)]).astype(np.int32)
