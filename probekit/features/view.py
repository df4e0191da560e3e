"""A view of features: which rows of an array to read, and the target of each."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from jaxtyping import Float64, Int64

from probekit.base.numbers.ragged import bounds_of, ragged_arange
from probekit.features.label_map import LabelMap
from probekit.probe.normalization import RowFacts
from probekit.store import Entry
from probekit.store.feature_array import FeatureArray
from probekit.tasks import KindName


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
