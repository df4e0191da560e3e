"""Match sequences with the examples of a split: token by token, or word by word."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import xxhash
from jaxtyping import Int64

from probekit.backbone import Inspection
from probekit.base.numbers import bounds_of
from probekit.data.encoded import EncodedSplit
from probekit.errors import DataError, OptionError
from probekit.extraction.imports.sequences import Sequences
from probekit.tasks import Split

logger = logging.getLogger(__name__)

Specials = Literal["present", "absent", "stripped"]
"""Whether rows of special tokens are there; if not, whether the model read them all the same."""

_NEAREST = 10_000
"""Sequences that are looked through for the one that comes nearest to an example."""

_SAME_RUN = 0.1
"""Relative difference of the states of one text in two batches; those of two models differ by 1."""

_ENDLESS = 10**9
"""A limit that cuts nothing."""


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
    special_tokens: Specials | None = None
    ended: bool = True


def match_words(split: Split, sequences: Sequences) -> Matched:
    """Match sequences whose rows are words, or are of words, with the sentences of a split.

    Raises:
        DataError: a sentence is missing or has other words, or more or fewer.
    """
    if any(example.text is not None for example in split.examples):
        raise DataError(
            f"{sequences.where}: its rows are of words, but the texts of {split.name} are not "
            "split into words. Import states with token ids."
        )
    _check_count(split, sequences)
    lengths, owners, cut = sequences.lengths[: len(split.examples)], [], 0
    counts = [len(example.words) for example in split.examples]
    for number, (example, count) in enumerate(zip(split.examples, counts, strict=True)):
        if sequences.form == "word-ids":
            owners.append(sequences.word_ids(number, count))
        elif lengths[number] == count:
            owners.append(np.arange(count))
        else:
            raise DataError(
                f"{sequences.name(number)}: {lengths[number]} rows, but example {example.id} has "
                f"{count} words ({' '.join(example.words)[:80]}...). Expected one row for each "
                "word."
            )
        cut += count - 1 - int(owners[-1].max(initial=-1))
    encoded = _encoded(
        lengths,
        ids=tuple(example.id for example in split.examples),
        subwords=np.full(int(lengths.sum()), -1, np.int32),
        word_map=_joined(owners),
        example_words=bounds_of(np.array(counts, np.int64)),
        cut={"truncated_words": cut},
    )
    return Matched(encoded=encoded, sequence=np.flatnonzero(lengths))


def _check_count(split: Split, sequences: Sequences) -> None:
    """Refuse sequences that cannot be those of the examples in their places.

    Raises:
        DataError: they are fewer, or more than those of a whole split.
    """
    count, wanted = len(sequences), len(split.examples)
    if count < wanted or (count > wanted and split.limit is None):
        raise DataError(
            f"{sequences.where}: {count:,} sequences, but {split.name} has {wanted:,} examples. "
            "Expected one for each, in the same order."
        )


def _encoded(lengths: Int64[np.ndarray, " examples"], **columns: Any) -> EncodedSplit:
    """Return a split whose examples have a window each, save those of no rows."""
    read = lengths > 0
    return EncodedSplit(
        window_lengths=lengths[read].astype(np.int32),
        example_windows=bounds_of(read.astype(np.int64)),
        **columns,
    )


def _joined(parts: Sequence[Int64[np.ndarray, " _"]]) -> Any:
    """Return lists of numbers one after the other; of none, an empty one."""
    return np.concatenate([*parts, np.empty(0, np.int32)]).astype(np.int32)


# The tokens of an example are [ a b ~b c ], where [ and ] are special and b is the subwords b ~b.
# What other programs may have of it, and what an entry takes from that:
#
#     whole            [ a b ~b c ]    every word
#     cut by rule      [ a b ]         a; half of b is there, so b has no row (a tokenizer's own
#                                      truncation keeps the special tokens)
#     cut at the end   [ a b ~b        a and b, and ] is missing (a list that was cut)
#     without special  a b ~b c        every word; it must be said whether the model read [ and ]


class Reading(NamedTuple):
    """Ids that a sequence may have for an example.

    Attributes:
        ids: the vocabulary id of each token.
        words: the word of each, -1 for a special token.
        types: the token type of each, where the model has several.
        special: whether special tokens are among them, or the tokenizer adds none.
        ended: whether those of the end are.
    """

    ids: Int64[np.ndarray, " tokens"]
    words: Int64[np.ndarray, " tokens"]
    types: Int64[np.ndarray, " tokens"] | None
    special: bool
    ended: bool

    @property
    def content(self) -> Int64[np.ndarray, " content"]:
        """The places of its tokens that are not special."""
        return np.flatnonzero(self.words >= 0)

    def taken(self, places: Int64[np.ndarray, " taken"], special: bool, ended: bool) -> "Reading":
        """Return some of its tokens."""
        types = None if self.types is None else self.types[places]
        return Reading(self.ids[places], self.words[places], types, special, ended)


def match_tokens(
    split: Split, sequences: Sequences, inspection: Inspection, special_tokens: Specials | None
) -> Matched:
    """Match sequences with the examples of a split by their token ids, one after the other.

    Args:
        split: the split.
        sequences: with token ids.
        inspection: the model, with its tokenizers.
        special_tokens: whether rows of special tokens are there, as the user says it; None is what
            the ids show.

    Raises:
        DataError: an example has no sequence, or one with other ids, or several with other states.
        OptionError: special tokens are missing, and nobody says whether the model read them.
    """
    matching = _TokenMatching(split, sequences, inspection, special_tokens)
    matches = [matching.find(number) for number in range(len(split.examples))]
    matching.say_unused()
    return matching.matched(matches)


class _TokenMatching:
    """Finds the sequence of each example."""

    def __init__(
        self,
        split: Split,
        sequences: Sequences,
        inspection: Inspection,
        special_tokens: Specials | None,
    ) -> None:
        self._split, self._sequences, self._inspection = split, sequences, inspection
        self._said = special_tokens
        # in full, as the tokenizer reads it
        self._expected = inspection.encode(
            split.examples,
            max_length=_ENDLESS,
            overlong="truncate",
            conversations=split.of_conversations,
        )
        self._longest = int(sequences.lengths.max(initial=0))
        self._used: set[int] = set()
        if sequences.ordered:
            _check_count(split, sequences)
        else:
            self._by_ids: dict[bytes, list[int]] = {}  # of equal ones the first counts
            for number in range(len(sequences)):
                self._by_ids.setdefault(_key(sequences.owners(number)), []).append(number)

    def find(self, number: int) -> tuple[int, Reading]:
        """Return the sequence of an example, and how it has the example."""
        if self._sequences.ordered:
            ids = self._sequences.owners(number)
            readings = list(self._possible(number, len(ids)))
            for reading in readings:
                if np.array_equal(reading.ids, ids):
                    return number, reading
            raise self._refusal(number, readings)
        length = len(self._whole(number).ids)
        if not length:  # nothing was read of it
            return -1, self._whole(number)
        for limit in sorted({length, min(length, self._longest)}, reverse=True):
            for reading in self._possible(number, limit):
                if equal := self._by_ids.get(_key(reading.ids)):
                    self._check_equal(equal)
                    self._used.add(equal[0])
                    return equal[0], reading
        raise self._refusal(number)

    def _check_equal(self, sequences: Sequence[int]) -> None:
        """Refuse sequences of the same tokens whose states differ: they are of two runs.

        Raises:
            DataError: they do.
        """
        first, *others = sequences
        if not others or first in self._used:
            return
        states = self._sequences.read(first).double()
        for other in others:
            error = (self._sequences.read(other).double() - states).norm() / states.norm()
            if error > _SAME_RUN:
                raise DataError(
                    f"{self._sequences.name(first)} and {self._sequences.name(other)} have the "
                    "same tokens but different states: they are from two runs, perhaps of two "
                    "models. Import the states of one run."
                )

    def say_unused(self) -> None:
        """Say how many sequences were of no use."""
        if not self._sequences.ordered and len(self._used) < len(self._by_ids):
            logger.info(
                "%s: %d of %d sequences match no text of %s.", self._sequences.where,
                len(self._by_ids) - len(self._used), len(self._by_ids), self._split.name,
            )  # fmt: skip

    def _refusal(self, number: int, readings: Sequence[Reading] = ()) -> DataError:
        """Return the error that shows the first token in which the nearest sequence differs.

        Args:
            number: of the example.
            readings: what its sequence might have been; without them, all of it.
        """
        sequences, whole = self._sequences, self._whole(number).ids
        tried = [number] if sequences.ordered else range(min(len(sequences), _NEAREST))
        for sequence in tried:
            self._check_padding(number, sequence)
        nearest = max(tried, key=lambda sequence: _agreeing(whole, sequences.owners(sequence)))
        there, name = sequences.owners(nearest), sequences.name(nearest)
        if np.array_equal(whole, there):
            raise OptionError(
                f"--special-tokens {self._said}: the token ids of {sequences.where} have the "
                f"special tokens of {self._inspection.info.name}. Leave the option out."
            )
        possible = [reading.ids for reading in readings] or [whole]
        expected = max(possible, key=lambda ids: _agreeing(ids, there))
        at, example = _agreeing(expected, there), self._split.examples[number].id
        said, why = f"{name} does not have the tokens of example {example}:", ""
        if not sequences.ordered:
            count = f"none of {len(sequences):,} sequences has the tokens of example {example}."
            said = f"{sequences.where}: {count} The nearest, {name}, differs:"
            why = ", or those of this example are missing"
        return DataError(
            f"{said} at position {at} the tokenizer of {self._inspection.info.name} gives "
            f"{self._shown(expected, at)}, but the file has {self._shown(there, at)}. The states "
            f"are of another text or tokenizer{why}."
        )

    def _check_padding(self, number: int, sequence: int) -> None:
        """Refuse a sequence that has an example's tokens and one other, again and again, at an end.

        Raises:
            DataError: it does.
        """
        whole, ids = self._whole(number).ids, self._sequences.owners(sequence)
        more = len(ids) - len(whole)
        if more <= 0 or not len(whole):
            return
        for where, inside, rest in (
            ("behind", ids[:-more], ids[-more:]),
            ("in front of", ids[more:], ids[:more]),
        ):
            if np.array_equal(inside, whole) and (rest == rest[0]).all():
                raise DataError(
                    f"{self._sequences.name(sequence)} is padded: it has the {len(whole)} tokens "
                    f"of example {self._split.examples[number].id} and {more} times "
                    f"{self._shown(rest, 0)} {where} them. Cut ids and states of every sequence to "
                    "its own tokens (where the attention mask is 1), and import these."
                )

    def _shown(self, ids: Int64[np.ndarray, " tokens"], at: int) -> str:
        if at >= len(ids):
            return f"the end, after {len(ids)}"
        number = int(ids[at])
        vocabulary = self._inspection.info.vocab_size
        known = 0 <= number < vocabulary
        token: Any = self._inspection.tokenizer.convert_ids_to_tokens(number) if known else None
        return f"{number} ({token!r})" if known else f"{number} (not one of {vocabulary:,})"

    def matched(self, matches: Sequence[tuple[int, Reading]]) -> Matched:
        """Put the sequences together as a split."""
        readings = [reading for _, reading in matches]
        special = self._special_tokens(readings)
        whole = [_whole_words(of.words, self._whole(n).words) for n, of in enumerate(readings)]
        maps, cut = [words for words, _ in whole], {"truncated_words": sum(n for _, n in whole)}
        if not self._expected.example_words[-1]:  # running texts, whose words have no rows
            maps = [reading.words for reading in readings]
            cut = {"truncated_words": 0, "truncated_examples": sum(n > 0 for _, n in whole)}
        lengths = np.array([len(reading.ids) for reading in readings], np.int64)
        types = [reading.types for reading in readings if reading.types is not None]
        encoded = _encoded(
            lengths,
            ids=self._expected.ids,
            subwords=_joined([reading.ids for reading in readings]),
            word_map=_joined(maps),
            example_words=self._expected.example_words,
            token_types=_joined(types) if types else None,
            cut=cut,
        )
        return Matched(
            encoded=encoded,
            sequence=np.array([number for number, _ in matches], np.int64)[lengths > 0],
            special_tokens=special,
            ended=all(reading.ended for reading in readings),
        )

    def _whole(self, number: int) -> Reading:
        """Return all tokens of an example."""
        expected = self._expected
        span = slice(*expected.example_tokens[number : number + 2].tolist())
        types = None if expected.token_types is None else expected.token_types[span]
        return Reading(expected.subwords[span], expected.word_map[span], types, True, True)

    def _possible(self, number: int, length: int) -> Iterator[Reading]:
        """Yield what a sequence of some length may have of an example, the fullest first."""
        whole, ordered = self._whole(number), self._sequences.ordered
        count, content = len(whole.ids), whole.content
        if self._said in (None, "present"):
            if length >= count:
                yield whole
            elif length > 0:
                yield from self._cut_by_rule(number, whole, length)
            if ordered or length < count:
                yield whole.taken(np.arange(min(length, count)), True, length >= count)
            suffix = count - 1 - int(content[-1]) if len(content) else 0
            if suffix and not ordered:
                yield whole.taken(np.arange(count - suffix), True, False)
        none = len(content) == count  # the tokenizer adds no special tokens: nothing is missing
        if self._said == "present" or (none and self._said is None):
            return
        yield whole.taken(content[:length] if ordered else content, none, none)
        if not ordered and self._longest < len(content):
            yield whole.taken(content[: self._longest], none, none)

    def _cut_by_rule(self, number: int, whole: Reading, length: int) -> Iterator[Reading]:
        """Yield an example as its tokenizer truncates it, special tokens kept."""
        example = self._split.examples[number]
        if example.text_pair is not None:
            with suppress(OptionError):  # so short that no pair fits
                cut = self._inspection.encode([example], max_length=length, overlong="truncate")
                yield Reading(cut.subwords, cut.word_map, cut.token_types, True, True)
        elif len(whole.content):
            first, behind = int(whole.content[0]), int(whole.content[-1]) + 1
            stop = length - (len(whole.ids) - behind)  # before the special tokens of the end
            if stop > first:
                places = np.concatenate([np.arange(stop), np.arange(behind, len(whole.ids))])
                yield whole.taken(places, True, True)

    def _special_tokens(self, readings: Sequence[Reading]) -> Specials | None:
        """Return whether special tokens are there, alike in all sequences.

        Raises:
            DataError: they are in some.
            OptionError: they are in none, and nobody says whether the model read them.
        """
        if not (self._expected.word_map < 0).any():
            return None
        with_special = {reading.special for reading in readings if len(reading.ids)}
        if len(with_special) > 1:
            raise DataError(
                f"{self._sequences.where}: some sequences have the tokenizer's special tokens, and "
                "some do not. All of a split must be alike."
            )
        if with_special != {False}:
            return "present"
        if self._said is None:
            raise OptionError(
                f"{self._sequences.where}: the token ids have no special tokens, which the "
                f"tokenizer of {self._inspection.info.name} puts around a text. Say whether the "
                "model read them: --special-tokens stripped (it did, and their rows were left out) "
                "or absent (it did not)."
            )
        return self._said


def _whole_words(
    words: Int64[np.ndarray, " tokens"], expected: Int64[np.ndarray, " whole"]
) -> tuple[Int64[np.ndarray, " tokens"], int]:
    """Return the word of each token without the word that was cut, and how many are not whole.

    As in extraction a word has a row if all of it was read, or if it is the first one.
    """
    count = int(expected.max(initial=-1)) + 1
    sizes = np.bincount(expected[expected >= 0], minlength=count)
    have = np.bincount(words[words >= 0], minlength=count)
    cut = np.flatnonzero(have < sizes)
    partly = cut[(have[cut] > 0) & (cut > 0)]
    return np.where(np.isin(words, partly), -1, words), len(cut)


def _key(ids: Int64[np.ndarray, " tokens"]) -> bytes:
    return xxhash.xxh3_128_digest(ids.astype(np.int64).tobytes())


def _agreeing(first: Int64[np.ndarray, " tokens"], second: Int64[np.ndarray, " tokens"]) -> int:
    """Return how many tokens two lists begin with in common."""
    count = min(len(first), len(second))
    differs = np.flatnonzero(first[:count] != second[:count])
    return int(differs[0]) if len(differs) else count
