"""What an estimator is given, as rows of layers: an array, or rows of a cache that are unread."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.layers import parse_layers
from probekit.errors import OptionError
from probekit.features.rows import BLOCK_ROWS, CachedRows


class ArrayRows:
    """Rows of an array (rows, layers, dim), read as `CachedRows` are.

    Attributes:
        layers: the places on the second axis.
        groups: None: nothing is known of what belongs together.
    """

    groups = None

    def __init__(self, values: Float[np.ndarray, "rows layers dim"]) -> None:
        """Keep the array."""
        self._values = values
        self.shape = values.shape
        self.layers = tuple(range(values.shape[1]))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._values)

    def __getitem__(self, rows: Int64[np.ndarray, " taken"]) -> "ArrayRows":
        """Return some of the rows."""
        return ArrayRows(self._values[rows])

    def blocks(self, layers: Sequence[int]) -> Iterator[Tensor]:
        """Yield the rows of some layers, as copies, in blocks."""
        for start in range(0, len(self), BLOCK_ROWS):
            block = self._values[start : start + BLOCK_ROWS, list(layers)]
            yield torch.from_numpy(block)


LayeredRows = CachedRows | ArrayRows


def side_by_side(X: Any, n_layers: int | None) -> tuple[Any, int]:
    """Return an input as scikit-learn checks it, (rows, layers x dim), and the number of layers.

    Args:
        X: (rows, layers, dim), or what scikit-learn takes as (rows, columns).
        n_layers: that lie side by side in the columns of the latter; None is one.

    Raises:
        OptionError: ``n_layers`` is no such number, or not that of X.
    """
    layers = 1 if n_layers is None else n_layers
    if isinstance(layers, bool) or not isinstance(layers, int | np.integer) or layers < 1:
        raise OptionError(f"n_layers must be a whole number of at least 1; found {n_layers!r}.")
    rows = X.detach().cpu().numpy() if isinstance(X, Tensor) else X
    if not isinstance(rows, np.ndarray) or rows.ndim != 3:
        return rows, int(layers)
    if n_layers not in (None, rows.shape[1]):
        raise OptionError(f"n_layers={n_layers}, but X has {rows.shape[1]} layers {rows.shape}.")
    return rows.reshape(len(rows), -1), rows.shape[1]


def in_layers(X: Float[np.ndarray, "rows columns"], n_layers: int) -> ArrayRows:
    """Return checked columns as layers.

    Raises:
        OptionError: they cannot be divided into so many.
    """
    if X.shape[1] % n_layers:
        raise OptionError(
            f"X has {X.shape[1]} columns, which are not {n_layers} layers of one width: give "
            "(rows, layers, dim), or the right n_layers=."
        )
    return ArrayRows(X.reshape(len(X), n_layers, -1))


def chosen_layers(layer: int | str | None, default: str, there: Sequence[int]) -> tuple[int, ...]:
    """Return the layers that are read.

    Args:
        layer: a number, or several in words as ``--layers`` takes them; None is the default as far
            as it is there, or the only layer.
        default: the default of the head.
        there: the layers of the input.

    Raises:
        OptionError: there is no such layer.
    """
    last = max(there)
    if layer is None and len(there) == 1:
        return tuple(there)
    if layer is None:
        return tuple(layer for layer in parse_layers(default, last) if layer in there)
    if isinstance(layer, bool) or not isinstance(layer, int | np.integer | str):
        raise OptionError(
            f"layer={layer!r}: give a number such as 5, or several in words such as '1:' or '0,6'."
        )
    wanted = parse_layers(str(layer), last)
    missing = [layer for layer in wanted if layer not in there]
    if missing:
        raise OptionError(f"layer={layer!r}: X has no layer {missing[0]}; it has {list(there)}.")
    return wanted
