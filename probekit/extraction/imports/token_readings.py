"""What a sequence of token ids may have of an example: all, what is left of a cut, no specials."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from probekit.backbone import Inspection
from probekit.data.encoded import EncodedSplit
from probekit.errors import OptionError
from probekit.extraction.imports.matching import Specials
from probekit.extraction.imports.sequences import Sequences
from probekit.tasks import Example, Split

_ENDLESS = 10**9
"""A limit that cuts nothing."""

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


@dataclass(frozen=True, eq=False)
class TokenReadings:
    """What sequences may have of the examples of a split.

    Attributes:
        split: the split.
        inspection: the model, with its tokenizers.
        special_tokens: whether rows of special tokens are there, as the user says it; None is
            either.
        expected: the split in full, as the tokenizer reads it.
        ordered: whether sequences come in the order of the examples, so that lengths are known.
        longest: tokens of the longest sequence.
    """

    split: Split
    inspection: Inspection
    special_tokens: Specials | None
    expected: EncodedSplit
    ordered: bool
    longest: int

    @classmethod
    def of(
        cls,
        split: Split,
        sequences: Sequences,
        inspection: Inspection,
        special_tokens: Specials | None,
    ) -> "TokenReadings":
        """Tokenize a split in full.

        Args:
            split: the split.
            sequences: with token ids.
            inspection: the model, with its tokenizers.
            special_tokens: as the user says it.
        """
        expected = inspection.encode(split.examples, max_length=_ENDLESS, overlong="truncate")
        longest = int(sequences.lengths.max(initial=0))
        return cls(split, inspection, special_tokens, expected, sequences.ordered, longest)

    def whole(self, number: int) -> Reading:
        """Return all tokens of an example."""
        expected = self.expected
        span = slice(*expected.example_tokens[number : number + 2].tolist())
        types = None if expected.token_types is None else expected.token_types[span]
        return Reading(expected.subwords[span], expected.word_map[span], types, True, True)

    def possible(self, number: int, length: int) -> Iterator[Reading]:
        """Yield what a sequence of some length may have of an example, the fullest first."""
        whole = self.whole(number)
        if self.special_tokens in (None, "present"):
            yield from self._with_special(number, whole, length)
        if self.special_tokens != "present":
            yield from self._without_special(whole, length)

    def _with_special(self, number: int, whole: Reading, length: int) -> Iterator[Reading]:
        count, content = len(whole.ids), whole.content
        if length >= count:
            yield whole
        elif length > 0:
            yield from self._cut_by_rule(number, whole, length)
        if self.ordered or length < count:
            yield whole.taken(np.arange(min(length, count)), True, length >= count)
        suffix = count - 1 - int(content[-1]) if len(content) else 0
        if suffix and not self.ordered:
            yield whole.taken(np.arange(count - suffix), True, False)

    def _without_special(self, whole: Reading, length: int) -> Iterator[Reading]:
        content = whole.content
        none = len(content) == len(whole.ids)  # then nothing is missing
        if none and self.special_tokens is None:
            return
        yield whole.taken(content[:length] if self.ordered else content, none, none)
        if not self.ordered and self.longest < len(content):
            yield whole.taken(content[: self.longest], none, none)

    def _cut_by_rule(self, number: int, whole: Reading, length: int) -> Iterator[Reading]:
        """Yield an example as its tokenizer truncates it, special tokens kept."""
        example = self.split.examples[number]
        if example.text_pair is not None:
            yield from self._cut_pair(example, length)
            return
        if not len(whole.content):
            return
        first, last = int(whole.content[0]), int(whole.content[-1])
        suffix = len(whole.ids) - 1 - last
        kept = length - first - suffix
        if kept > 0:
            stop = first + kept
            places = np.concatenate([np.arange(stop), np.arange(last + 1, len(whole.ids))])
            yield whole.taken(places, True, True)

    def _cut_pair(self, example: Example, length: int) -> Iterator[Reading]:
        try:
            cut = self.inspection.encode([example], max_length=length, overlong="truncate")
        except OptionError:  # so short that no pair fits
            return
        yield Reading(cut.subwords, cut.word_map, cut.token_types, True, True)
