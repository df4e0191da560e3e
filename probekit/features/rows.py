"""Rows of a view as other tools take them: NumPy, a pandas table, a lazy array, a data set."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64, Shaped
from torch import Tensor
from torch.utils.data import Dataset

from probekit.base.kinds import KINDS
from probekit.base.layers import parse_layers
from probekit.errors import OptionError
from probekit.features.view import FeatureView
from probekit.store.feature_array import FeatureArray

if TYPE_CHECKING:
    import pandas


class LayerRows(NamedTuple):
    """Rows of one layer with what they are to predict; it unpacks as ``X, y, words``.

    Attributes:
        X: the states, one row per word or text.
        y: the label of each row: a class's name, the number of a regression, the vocabulary id of
            language modelling; of sets of labels 1 or 0 for each, (rows, labels).
        words: sentence of each row, as its place in the split, and word, as its place in the
            sentence; the word of a whole text is 0.
    """

    X: Float32[np.ndarray, "rows dim"]
    y: Shaped[np.ndarray, "rows ..."]
    words: Int64[np.ndarray, "rows 2"]


def layer_rows(view: FeatureView, layer: int) -> LayerRows:
    """Return the rows of one layer in float32, their labels, and which words they are of.

    Args:
        view: of a split.
        layer: a layer that is stored; 0 are the embeddings, and -1 is the last.

    Raises:
        OptionError: the layer is not stored.
    """
    states = view.array.read(view.rows, layers=counted_layers(view, layer))[:, 0]
    return LayerRows(states.float().numpy(), labels_of(view), word_places(view))


def counted_layers(view: FeatureView, layers: str | int | Iterable[int]) -> tuple[int, ...]:
    """Return the numbers of layers; negative ones count from the model's last, as typed ones do.

    Raises:
        OptionError: the model has no such layer.
    """
    n_blocks = view.entry.manifest.n_blocks
    if isinstance(layers, str):
        return parse_layers(layers, n_blocks)
    asked = list(layers) if isinstance(layers, Iterable) else [layers]
    for layer in asked:
        is_of_model = isinstance(layer, int | np.integer) and -n_blocks - 1 <= layer <= n_blocks
        if not is_of_model and layer not in view.array.layers:
            raise OptionError(
                f"layer {layer!r}: this model has layers 0 to {n_blocks}, which are also "
                f"{-n_blocks - 1} to -1."
            )
    return tuple(layer + n_blocks + 1 if layer < 0 else layer for layer in asked)


def labels_of(view: FeatureView) -> Shaped[np.ndarray, "rows ..."]:
    """Return the targets under the names that users know them by."""
    if KINDS[view.kind].targets != "classes":
        return view.targets
    return np.array(view.all_names, dtype=np.str_)[view.targets]


def word_places(view: FeatureView) -> Int64[np.ndarray, "rows 2"]:
    """Return the sentence and the word of each row, as ``LayerRows.words`` has them."""
    owners = view.owners
    of_texts = KINDS[view.kind].per == "text"
    return np.stack([owners, np.zeros_like(owners) if of_texts else view.word_places], 1)


def to_frame(view: FeatureView) -> "pandas.DataFrame":
    """Return a line per row: ``id``, ``position``, ``word`` or ``text``, ``label``, ``row``.

    ``position`` is the place of the word in its sentence, or of the prediction in its text, whose
    words have no column; ``row`` that of its states in ``view.array``.
    """
    import pandas  # slow to import

    examples, positions = word_places(view).T
    ids = np.array(view.entry.examples.ids, dtype=object)
    columns: dict[str, Any] = {"id": ids[examples], "position": positions}
    if KINDS[view.kind].of_words:
        columns["word"] = view.words
    elif KINDS[view.kind].per == "text":
        columns["text"] = view.texts
    labels: Any = labels_of(view)
    if view.of_sets:
        names = np.array(view.all_names, dtype=object)
        labels = [list(names[has == 1]) for has in labels]
    return pandas.DataFrame({**columns, "label": labels, "row": view.rows})


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
    def of(cls, view: FeatureView, layers: str | int | Iterable[int] | None = None) -> Self:
        """Return the rows of a view.

        Args:
            view: of a split.
            layers: layer numbers, or text as ``--layers`` takes it; -1 is the model's last layer;
                None is all that are stored.

        Raises:
            OptionError: a layer that is not stored.
        """
        chosen = view.array.layers if layers is None else counted_layers(view, layers)
        view.array.read(slice(0, 0), chosen)  # refuses a layer that is not there
        return cls(view.array, view.rows, chosen, view.row_groups)

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
                f"choose cached rows by a slice, row numbers or a mask; found {rows!r}. To choose "
                "single values, read the rows first: rows.read(), or rows.read(layers=[5])."
            )
        places = np.arange(len(self))[rows]
        return type(self)(self.array, self.rows[places], self.layers, self.groups[places])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Read all of it: (rows, layers, dim).

        Raises:
            ValueError: a copy is forbidden, and reading makes one.
        """
        if copy is False:
            raise ValueError("cached rows are always copied when read; leave copy=False out.")
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
    y: Shaped[np.ndarray, "rows ..."]
    words: Int64[np.ndarray, "rows 2"]


class RowItem(NamedTuple):
    """One row, or a batch of them once a ``DataLoader`` has put them together.

    Attributes:
        states: (layers, dim) in the dtype of the cache: what ``extract --dtype`` stored, float32
            for int8.
        target: class number (int64), number of a regression (float32) or vocabulary id (int64); of
            sets of labels 1 or 0 for each (int8).
        sentence: place of its sentence or text in the split (int64).
        word: place of its word in the sentence (int64); 0 of a whole text.
    """

    states: Float[Tensor, "*batch layers dim"]
    target: Shaped[Tensor, "..."]
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
            raise IndexError(f"row {index} does not exist: the dataset has {len(self)} rows")
        return self.__getitems__([index % len(self)])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[RowItem]:
        """Return several rows, read at once."""
        where = torch.tensor(indices, dtype=torch.int64)
        states = self.rows[where.numpy()].tensor()
        columns = (self._targets[where], self._sentences[where], self._words[where])
        items = zip(states.unbind(0), *(column.unbind(0) for column in columns), strict=True)
        return [RowItem(*item) for item in items]
