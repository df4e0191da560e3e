"""A ``torch.utils.data.Dataset`` over an entry, for a training loop of one's own."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor
from torch.utils.data import Dataset

from probekit.base.kinds import KINDS
from probekit.features.cached_rows import CachedRows
from probekit.features.rows_by_name import word_places
from probekit.features.view import FeatureView


class RowItem(NamedTuple):
    """One row, or a batch of them once a ``DataLoader`` has put them together.

    Attributes:
        states: (layers, dim) in the dtype of the cache: what ``extract --dtype`` stored, float32
            for int8.
        target: class number (int64), number of a regression (float32) or vocabulary id (int64).
        sentence: place of its sentence or text in the split (int64).
        word: place of its word in the sentence (int64); 0 of a whole text.
    """

    states: Float[Tensor, "*batch layers dim"]
    target: Shaped[Tensor, "*batch"]
    sentence: Int64[Tensor, "*batch"]
    word: Int64[Tensor, "*batch"]


class RowDataset(Dataset[RowItem]):
    """The rows of a view as items; a batch is one read of the cache.

    A ``DataLoader`` asks it for whole batches (``__getitems__``), in this process or in workers,
    forked or spawned: nothing but the numbers of rows travels to them, and each maps the files
    itself.

    Attributes:
        classes: the name of each class number in ``target``; those behind ``n_classes`` occur here
            and not in train. Empty for numbers and language modelling.
        n_classes: how many of them a probe should tell apart: those of train.
    """

    def __init__(self, view: FeatureView, layers: Sequence[int] | None = None) -> None:
        """Keep which rows there are, and their targets.

        Args:
            view: of a split.
            layers: layer numbers; None is all that are stored.

        Raises:
            OptionError: a layer that is not stored.
        """
        self.rows = CachedRows.of(view, layers)
        targets = torch.from_numpy(view.targets)
        self._targets = targets.float() if KINDS[view.kind].targets == "numbers" else targets
        self._sentences, self._words = torch.from_numpy(word_places(view)).unbind(1)
        self.classes, self.n_classes = view.all_names, len(view.labels)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layer numbers, in the order of an item's first axis."""
        return self.rows.layers

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __getitem__(self, index: int) -> RowItem:
        """Return one row; a negative number counts from the end.

        Raises:
            IndexError: there is no such row.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of a dataset of {len(self)} rows")
        return self.__getitems__([index % len(self)])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[RowItem]:
        """Return several rows, read at once."""
        where = torch.tensor(indices, dtype=torch.int64)
        states = self.rows[where.numpy()].tensor()
        columns = (self._targets[where], self._sentences[where], self._words[where])
        items = zip(states.unbind(0), *(column.unbind(0) for column in columns), strict=True)
        return [RowItem(*item) for item in items]
