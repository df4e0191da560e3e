"""A view of features: which rows of which array to read, and the target of each."""

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from jaxtyping import Bool, Float64, Int64

from probekit.base.kinds import ARRAYS, KINDS, POOLED, KindName
from probekit.base.numbers.ragged import bounds_of, ragged_arange
from probekit.errors import DataError, OptionError
from probekit.features.split_labels import LabelMap, SplitLabels, as_numbers
from probekit.probe.model_parts.kept import KeptBackbone
from probekit.probe.normalization import RowFacts
from probekit.store import Entry
from probekit.store.feature_array import FeatureArray

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
            its value for a regression, its vocabulary id for language modelling.
        labels: the classes; empty for regression and language modelling.
        unseen: label names beyond the classes.
        n_outputs: numbers that a decoder gives per row: classes, 1 for a regression, or V.
        ids: id of each example.
        positions: position in the entry of each example.
        facts: what of the model a normalisation may want to know.
    """

    entry: Entry
    array: FeatureArray
    kind: KindName
    rows: Int64[np.ndarray, " rows"]
    offsets: Int64[np.ndarray, " bounds"]
    targets: Int64[np.ndarray, " rows"] | Float64[np.ndarray, " rows"]
    labels: LabelMap
    unseen: tuple[str, ...] = ()
    n_outputs: int
    ids: tuple[str, ...]
    positions: Int64[np.ndarray, " examples"]
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

    @property
    def all_names(self) -> tuple[str, ...]:
        """Name of each number in ``targets``: the classes, then the unseen labels."""
        return self.labels.names + self.unseen

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
        )

    def places(self, examples: Int64[np.ndarray, " taken"]) -> Int64[np.ndarray, " places"]:
        """Return the positions in ``rows`` of some examples' rows, example by example."""
        return ragged_arange(self.offsets[examples], self.lengths[examples])


def view_of(
    entry: Entry,
    labels: SplitLabels,
    label_map: LabelMap,
    *,
    kind: KindName = "tagging",
    pooling: str | None = None,
    valid_only: bool = False,
) -> FeatureView:
    """Join an entry's rows with labels; words without a label have no row.

    Args:
        entry: the entry.
        labels: of its examples.
        label_map: the classes; empty for a kind without classes.
        kind: what is predicted.
        pooling: which row stands for a whole text (see ``choose_array``).
        valid_only: leave out words that the tokenizer deleted or a cut lost. They take no part in
            training; in scoring they count as any other word, with a row of zeros.

    Raises:
        DataError: the entry does not keep the rows, or a regression label is no number.
        OptionError: a pooling that does not fit the kind.
    """
    manifest, per = entry.manifest, KINDS[kind].per
    name = choose_array(entry, kind, pooling)
    rows, bounds, valid = _example_rows(entry, name)
    keep = valid if valid_only else np.ones(len(valid), bool)
    if per == "word":
        keep = keep & labels.given
    targets, unseen = _targets(entry, labels, label_map, kind, keep)
    # Two sentences of 3 and 2 words (bounds 0 3 5), the second word without a label:
    #
    #   keep             1 0 1 1 1
    #   bounds_of(keep)  0 1 1 2 3 4     how many rows are kept before each word, and in all
    #   offsets          0     2   4     of these, where a sentence begins: [0, 2) and [2, 4)
    offsets, ids = bounds_of(keep.astype(np.int64))[bounds], entry.examples.ids
    positions = np.arange(len(ids))
    if per == "prediction":
        offsets, positions = cut_passages(offsets)
        ids = tuple(ids[position] for position in positions)
    return FeatureView(
        entry=entry,
        array=entry.arrays[name],
        kind=kind,
        rows=rows[keep],
        offsets=offsets,
        targets=targets,
        labels=label_map,
        unseen=unseen,
        n_outputs=count_outputs(entry, label_map, kind),
        ids=ids,
        positions=positions,
        facts=RowFacts(
            final_norm=KeptBackbone(entry.backbone).final_norm,
            normed_layer=manifest.n_blocks if manifest.final_norm else None,
        ),
    )


def _targets(
    entry: Entry,
    labels: SplitLabels,
    label_map: LabelMap,
    kind: KindName,
    keep: Bool[np.ndarray, " all"],
) -> tuple[Int64[np.ndarray, " rows"] | Float64[np.ndarray, " rows"], tuple[str, ...]]:
    """Return the target of each row that is kept, and the label names that the map lacks."""
    if KINDS[kind].targets == "vocabulary":
        return entry.examples.targets.astype(np.int64)[keep], ()
    if KINDS[kind].targets == "numbers":
        return as_numbers(labels.values, labels.where)[keep], ()
    return label_map.encode(list(itertools.compress(labels.values, keep)))


def count_outputs(entry: Entry, label_map: LabelMap, kind: KindName) -> int:
    """Return how many numbers a decoder gives per row: classes, 1 for a regression, or V."""
    if KINDS[kind].targets == "vocabulary":
        return int(entry.manifest.model_info["vocab_size"])
    return 1 if KINDS[kind].targets == "numbers" else len(label_map)


def choose_array(entry: Entry, kind: KindName, pooling: str | None) -> str:
    """Return the array that a label column of some kind is predicted from.

    Args:
        entry: of some split.
        kind: of the label column.
        pooling: one of ``POOLED``, for labels of whole texts; ``None`` is the mean of all
            tokens of a bidirectional model and the last token of a causal one.

    Raises:
        OptionError: a pooling that does not exist, or for labels of single words.
        DataError: the entry does not hold the array.
    """
    fixed = KINDS[kind].own_rows
    if pooling is not None and fixed is not None:
        raise OptionError(
            f"--pooling {pooling} chooses a row for a whole text; these labels ({kind}) have rows "
            "of their own."
        )
    if pooling is not None and pooling not in POOLED:
        raise OptionError(f"--pooling {pooling!r} is none of: {', '.join(POOLED)}.")
    array = fixed or pooling or ("last" if entry.manifest.causal else "mean")
    if array not in entry.arrays:
        raise DataError(f"the cache has no {array!r} rows: {missing_array(entry, array)}")
    return array


def settled_array(kind: KindName, pooling: str | None) -> str:
    """Return the array of a run's rows, given the row of whole texts that was settled, if any."""
    array = pooling or KINDS[kind].own_rows
    assert array is not None, "a pooling is settled for labels of whole texts"
    return array


def missing_array(entry: Entry, array: str) -> str:
    """Return what an entry holds instead of an array, and how to get it, for messages."""
    return f"{entry.path} {entry.manifest.lacking(array)}"


def _example_rows(
    entry: Entry, array: str
) -> tuple[Int64[np.ndarray, " rows"], Int64[np.ndarray, " bounds"], Bool[np.ndarray, " rows"]]:
    """Return the rows of an array, the bounds of each example in them, and which are valid."""
    examples = entry.examples
    if ARRAYS[array].per == "text":
        rows = examples.pooled_start.astype(np.int64)
        return rows, np.arange(len(rows) + 1), np.ones(len(rows), bool)
    return examples.rows, bounds_of(examples.n_rows), examples.valid


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
