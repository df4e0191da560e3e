"""A view of features: which rows of which array to read, and the target of each."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64, Shaped

from probekit.base.kinds import KINDS, POOLED, TOKENS, KindName
from probekit.base.layers import STREAM, ReadPoint
from probekit.base.numbers import bounds_of, ragged_arange
from probekit.base.registry import choose
from probekit.errors import DataError, OptionError
from probekit.features.sentence_groups import SentenceGroups
from probekit.features.split_labels import LabelMap, TargetSpans
from probekit.probe.normalization import RowFacts
from probekit.probe.token_heads import TOKEN_HEADS
from probekit.probe.token_heads.contract import TokenHeadSpec
from probekit.store import Entry
from probekit.store.feature_array import FeatureArray

Targets = (
    Int64[np.ndarray, " rows"] | Float64[np.ndarray, " rows"] | Int8[np.ndarray, "rows labels"]
)

PASSAGE_ROWS = 64
"""Rows of a text that language modelling batches, draws and resamples as one example."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureView:
    """Rows and targets of one split for one label column; nothing is read until asked for.

    Attributes:
        entry: the entry that holds the rows.
        array: its array that they are read from (R, layers, D).
        kind: what is predicted.
        rows: row in ``array`` of each target.
        offsets: ``rows[offsets[i]:offsets[i + 1]]`` are the rows of example i: its words, or one
            row for the whole text.
        targets: class of each row (a number from ``len(labels)`` on is a label unseen in train),
            its value for a regression, its vocabulary id for language modelling; of sets of labels
            a column for each of ``all_names``, 1 where the row has it, else 0.
        labels: the classes; empty for regression and language modelling.
        unseen: label names beyond the classes.
        n_outputs: numbers that a decoder gives per row: classes, 1 for a regression, or V.
        ids: id of each example.
        positions: position in the entry of each example.
        groups: number of the group of each example; None where there are no groups.
        resampled: what intervals over the examples resample together, by position in the entry;
            None where that is each example by itself.
        spans: what the targets of the entry are of, where these are spans.
        facts: what of the model a normalisation may want to know.
    """

    entry: Entry
    array: FeatureArray
    kind: KindName
    rows: Int64[np.ndarray, " rows"]
    offsets: Int64[np.ndarray, " bounds"]
    targets: Targets
    labels: LabelMap
    unseen: tuple[str, ...] = ()
    n_outputs: int
    ids: tuple[str, ...]
    positions: Int64[np.ndarray, " examples"]
    groups: Int64[np.ndarray, " examples"] | None = None
    resampled: SentenceGroups | None = None
    spans: TargetSpans | None = None
    facts: RowFacts = field(default_factory=RowFacts)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __repr__(self) -> str:
        """Return what it is of, and how much."""
        of = self.entry.manifest
        what = f"{of.model}, {of.task} {of.split}"
        rows = f"{len(self)} rows of {self.array.spec.name!r}"
        return f"FeatureView({what}: {self.n_examples} examples, {rows})"

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.ids)

    @cached_property
    def lengths(self) -> Int64[np.ndarray, " examples"]:
        """Rows of each example."""
        return np.diff(self.offsets)

    @cached_property
    def stored_lengths(self) -> Int64[np.ndarray, " examples"]:
        """Stored rows that those of each example are made of."""
        return np.diff(bounds_of(self.array.stored_rows(self.rows))[self.offsets])

    @property
    def all_names(self) -> tuple[str, ...]:
        """Name of each number in ``targets``: the classes, then the unseen labels."""
        return self.labels.names + self.unseen

    # Two sentences of 3 and 2 words, of which the word 1 has no label and no row, lie behind 7 rows
    # of others in the array:
    #
    #   rows           7 9 10 11      the rows of the array
    #   owners         0 0  1  1
    #   word_places    0 2  0  1      row_start is 7 and 10
    #   word_numbers   0 2  3  4      the sentences begin with the words 0 and 3 of the entry

    @property
    def owners(self) -> Int64[np.ndarray, " rows"]:
        """The example that each row is of, as its position in the entry."""
        return np.repeat(self.positions, self.lengths)

    @property
    def row_groups(self) -> Int64[np.ndarray, " rows"]:
        """The number of the group of each row: of its sentence, where there are no groups."""
        return self.owners if self.groups is None else np.repeat(self.groups, self.lengths)

    @property
    def word_places(self) -> Int64[np.ndarray, " rows"]:
        """The place in its example of each row of a view of words, spans or predictions."""
        if self.spans is not None:
            return self.rows - self.spans.bounds[self.owners]
        return self.rows - self.entry.examples.row_start[self.owners]

    @property
    def word_numbers(self) -> Int64[np.ndarray, " rows"]:
        """The place of each such row among all words, or predictions, of the entry."""
        return bounds_of(self.entry.examples.n_rows)[self.owners] + self.word_places

    @property
    def words(self) -> list[str]:
        """The word of each row of a view of words, or the words of each span or pair."""
        if self.spans is not None:
            sentences = [self.entry.examples.words(n) for n in self.positions]
            of_rows = np.repeat(np.arange(self.n_examples), self.lengths).tolist()
            return [
                " | ".join(" ".join(sentences[n][start:stop]) for start, stop in places)
                for n, places in zip(of_rows, self.spans.places[self.rows].tolist(), strict=True)
            ]
        return list(self.entry.examples.flat("words")[self.word_numbers])

    @property
    def texts(self) -> list[str | tuple[str, ...]]:
        """What each example was read from: the words of its rows, its text, or both of a pair.

        The text of sentences that are known by their words is these, with spaces between.
        """
        if KINDS[self.kind].of_words:
            words, bounds = self.words, self.offsets.tolist()
            return [tuple(words[a:b]) for a, b in itertools.pairwise(bounds)]
        places, numbers = np.unique(self.positions, return_inverse=True)  # of passages, their text
        examples = self.entry.examples.take(places)
        shown: list[str | tuple[str, ...]] = []
        for number, (text, pair) in enumerate(examples.texts):
            said = " ".join(examples.words(number)) if text is None else text
            shown.append(said if pair is None else (said, pair))
        return [shown[number] for number in numbers.tolist()]

    @property
    def text_names(self) -> Shaped[np.ndarray, " examples"]:
        """The id of each example's text, whichever its reading under other masks (``ID#PASS``)."""
        masking = self.entry.manifest.request["masking"] or {}
        read_again = masking.get("passes", 1) > 1
        return np.array([name.rpartition("#")[0] if read_again else name for name in self.ids])

    @property
    def of_sets(self) -> bool:
        """Whether a row may have several labels, or none."""
        return KINDS[self.kind].targets == "sets"

    def rows_of(self, types: Sequence[str]) -> dict[str, Bool[np.ndarray, " rows"]]:
        """Return which rows have each label, under what each of ``all_names`` is counted as."""
        numbers = {name: [n for n, of in enumerate(types) if of == name] for name in set(types)}
        has = self.targets == 1 if self.of_sets else self.targets[:, None] == np.arange(len(types))
        return {name: np.asarray(has[:, of].any(1)) for name, of in numbers.items()}

    def take(self, examples: Int64[np.ndarray, " taken"]) -> Self:
        """Return the view of some examples, in the order given."""
        places = self.places(examples)
        return replace(
            self,
            rows=self.rows[places],
            offsets=bounds_of(self.lengths[examples]),
            targets=self.targets[places],
            ids=tuple(self.ids[example] for example in examples),
            positions=self.positions[examples],
            groups=None if self.groups is None else self.groups[examples],
        )

    def places(self, examples: Int64[np.ndarray, " taken"]) -> Int64[np.ndarray, " places"]:
        """Return the positions in ``rows`` of some examples' rows, example by example."""
        return ragged_arange(self.offsets[examples], self.lengths[examples])


def choose_array(
    entry: Entry, kind: KindName, pooling: str | None, point: ReadPoint = STREAM
) -> str:
    """Return the array that a label column of some kind is predicted from.

    Args:
        entry: of some split.
        kind: of the label column.
        pooling: one of ``POOLED``, for labels of whole texts; ``None`` is the mean of all
            tokens of a bidirectional model and the last token of a causal one.
        point: that rows are read from.

    Raises:
        OptionError: a pooling for labels of single words.
        UnknownNameError: there is no such pooling.
        DataError: the entry does not hold the array.
    """
    fixed = KINDS[kind].own_rows
    if pooling is not None and fixed is not None:
        raise OptionError(
            f"--pooling {pooling} chooses a row for a whole text; these labels ({kind}) have rows "
            "of their own. Leave it out."
        )
    if pooling is not None:
        choose("--pooling", pooling, dict.fromkeys(POOLED))
    row = fixed or pooling or ("last" if entry.manifest.causal else "mean")
    for array in point.arrays(row).values():
        if array in entry.arrays:
            continue
        held = f"the cache has no {array!r} rows: {missing_array(entry, array)}"
        tokens = point.array(TOKENS) in entry.arrays and fixed is None and row in TOKEN_HEADS
        raise DataError(f"{held} Or give --token-head {row}." if tokens else held)
    return point.array(row)


def settled_array(
    kind: KindName,
    pooling: str | None,
    token_head: TokenHeadSpec | None,
    point: ReadPoint = STREAM,
) -> str:
    """Return the array that rows are read from, given the settled pooling and token head."""
    of_texts = KINDS[kind].own_rows is None
    array = TOKENS if token_head is not None and of_texts else pooling or KINDS[kind].own_rows
    assert array is not None, "a pooling is settled for labels of whole texts"
    return point.array(array)


def missing_array(entry: Entry, array: str) -> str:
    """Return what an entry holds instead of an array, and how to get it, for messages."""
    return f"{entry.path} {entry.manifest.lacking(array)}"


def cut_passages(
    bounds: Int64[np.ndarray, " bounds"], size: int = PASSAGE_ROWS
) -> tuple[Int64[np.ndarray, " finer"], Int64[np.ndarray, " passages"]]:
    """Cut examples into passages of at most ``size`` rows.

    Returns:
        The bounds of the passages, and the example of each.
    """
    # Three texts of 5, 0 and 2 rows, in passages of 2:
    #
    #   bounds    0         5 5   7      text 1 has no row, and so no passage
    #   lengths   5  0  2
    #   counts    3  0  1                passages of each text, rounded up
    #   owner     0  0  0  2             text of each passage
    #   places    0  1  2  0             which of its text's passages it is
    #   starts    0  2  4  5             bounds[owner] + 2 * places
    #
    # The last passage of a text is as long as what is left of it: [4, 5) here.
    lengths = np.diff(bounds)
    counts = -(-lengths // size)
    owner = np.repeat(np.arange(len(lengths)), counts)
    starts = bounds[owner] + size * ragged_arange(np.zeros_like(counts), counts)
    return np.concatenate([starts, bounds[-1:]]), owner
