"""Rows of an entry that are read when they are asked for, as tools that cut rows take them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float32, Int64, Shaped
from torch import Tensor

from probekit.errors import OptionError
from probekit.features.rows_by_name import labels_of, word_places
from probekit.features.view import FeatureView
from probekit.store.feature_array import FeatureArray

BLOCK_ROWS = 8_192
"""Rows that are read at a time where all of them are gone through."""


class CachedRows:
    """Rows of a view, by layers: looks like an array, and holds nothing but their numbers.

    Indexing by rows (a slice, row numbers, a mask) gives those rows, again unread, so that a
    cross-validation cuts them without a copy; ``read`` and ``numpy.asarray`` read them. It can be
    pickled: another process maps the same files.

    Attributes:
        array: what the rows are read from.
        rows: row in ``array`` of each row.
        layers: layer numbers, in the order of the second axis.
        groups: number of the sentence of each row, or of the group that it is in where the features
            were opened with ``group``: rows of one number belong on one side of a split.
    """

    dtype = np.dtype(np.float32)
    ndim = 3

    def __init__(
        self,
        array: FeatureArray,
        rows: Int64[np.ndarray, " rows"],
        layers: Sequence[int],
        groups: Int64[np.ndarray, " rows"],
    ) -> None:
        """Keep what is to be read."""
        self.array, self.rows, self.groups = array, rows, groups
        self.layers = tuple(layers)

    @classmethod
    def of(cls, view: FeatureView, layers: Sequence[int] | None = None) -> Self:
        """Return the rows of a view.

        Args:
            view: of a split.
            layers: layer numbers; None is all that are stored.

        Raises:
            OptionError: a layer that is not stored.
        """
        chosen = view.array.layers if layers is None else tuple(layers)
        view.array.read(slice(0, 0), chosen)  # refuses a layer that is not there
        return cls(view.array, view.rows, chosen, row_groups(view))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, layers and width."""
        return len(self.rows), len(self.layers), self.array.dim

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __repr__(self) -> str:
        """Return what is in it, and that it is not read."""
        return f"CachedRows({' x '.join(map(str, self.shape))} of {self.array.spec.name!r}, unread)"

    def __getitem__(self, key: Any) -> Self:
        """Return some of the rows, unread.

        Args:
            key: a slice, row numbers or a mask; behind it nothing but an ellipsis, as scikit-learn
                writes it.

        Raises:
            OptionError: a single row, or a choice among layers or values.
        """
        rows = key[0] if isinstance(key, tuple) and key[1:] == (...,) else key
        if isinstance(rows, tuple | int | np.integer):
            raise OptionError(
                f"rows of a cache are chosen by a slice, row numbers or a mask; found {rows!r}. "
                "Read them first (rows.read(), or rows.read(layers=[5])) to choose single values."
            )
        places = np.arange(len(self))[rows]
        return type(self)(self.array, self.rows[places], self.layers, self.groups[places])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Read all of it: (rows, layers, dim).

        Raises:
            ValueError: a copy is forbidden, and reading makes one.
        """
        if copy is False:
            raise ValueError("reading rows of a cache makes a copy of them.")
        return self.read().astype(dtype or self.dtype, copy=False)

    def read(self, layers: Sequence[int] | None = None) -> Float32[np.ndarray, "rows layers dim"]:
        """Return the rows of some layers in float32; of all in `layers` if None."""
        return self.tensor(layers).float().numpy()

    def tensor(self, layers: Sequence[int] | None = None) -> Tensor:
        """Return the same in the stored dtype (float32 for int8), shape (rows, layers, dim)."""
        return self.array.read(self.rows, self.layers if layers is None else layers)

    def blocks(self, layers: Sequence[int]) -> Iterator[Tensor]:
        """Yield the rows of some layers in blocks, each as `tensor` returns it."""
        for start in range(0, len(self), BLOCK_ROWS):
            yield self[start : start + BLOCK_ROWS].tensor(layers)


class EntryRows(NamedTuple):
    """Rows of a split with what they are to predict; it unpacks as ``X, y, words``.

    Attributes:
        X: the states, unread.
        y: the label of each row, as `LayerRows.y` has it.
        words: sentence and word of each row, as `LayerRows.words` has them.
    """

    X: CachedRows
    y: Shaped[np.ndarray, " rows"]
    words: Int64[np.ndarray, "rows 2"]


def entry_rows(view: FeatureView, layers: Sequence[int] | None = None) -> EntryRows:
    """Return the rows of a view, unread, their labels, and which words they are of."""
    return EntryRows(CachedRows.of(view, layers), labels_of(view), word_places(view))


def row_groups(view: FeatureView) -> Int64[np.ndarray, " rows"]:
    """Return the number of the group of each row: of its sentence, where there are no groups."""
    if view.groups is None:
        return view.owners
    return np.repeat(view.groups, view.lengths)
