"""A view of features: which rows of an array to read, and the target of each."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from jaxtyping import Int64

from probekit.features.labels import LabelMap
from probekit.heads.normalization import FinalNorm
from probekit.ragged import bounds_of, ragged_arange
from probekit.store.feature_array import FeatureArray


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureView:
    """Rows and targets of one split for one label column; nothing is read until asked for.

    Attributes:
        array: the cache's rows (R, layers, D).
        rows: row in ``array`` of each word.
        offsets: ``rows[offsets[i]:offsets[i + 1]]`` are the words of example i.
        targets: class of each word; a number from ``len(labels)`` on is a label unseen in train.
        labels: the classes.
        unseen: label names beyond the classes.
        ids: id of each example.
        final_norm: the model's final norm, where it has one.
        normed_layer: the layer that is cached after that norm, if any.
    """

    array: FeatureArray
    rows: Int64[np.ndarray, " rows"]
    offsets: Int64[np.ndarray, " bounds"]
    targets: Int64[np.ndarray, " rows"]
    labels: LabelMap
    unseen: tuple[str, ...] = ()
    ids: tuple[str, ...]
    final_norm: FinalNorm | None = None
    normed_layer: int | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.ids)

    @property
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
        )

    def places(self, examples: Int64[np.ndarray, " taken"]) -> Int64[np.ndarray, " places"]:
        """Return the positions in ``rows`` of some examples' words, example by example."""
        return ragged_arange(self.offsets[examples], self.lengths[examples])
