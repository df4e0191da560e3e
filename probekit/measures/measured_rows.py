"""The rows of an entry that are measured: which array, which rows, and blocks of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from probekit.base.kinds import ARRAYS, KINDS
from probekit.base.numbers import numpy_generator, ragged_arange
from probekit.errors import EntryError, OptionError
from probekit.store import Entry
from probekit.store.feature_array import FeatureArray

BLOCK_BYTES = 64 * 2**20
"""What a block of rows takes in float64."""


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Rows of one array.

    Attributes:
        array: what they are read from.
        rows: their numbers, ascending.
        of_rows: how many there are to draw from.
        block: rows that are read at once; None is what ``BLOCK_BYTES`` hold.
        where: the entry and array, for messages.
    """

    array: FeatureArray
    rows: Int64[np.ndarray, " rows"]
    of_rows: int
    block: int | None
    where: str

    @classmethod
    def draw(
        cls,
        entry: Entry,
        array: str | None = None,
        *,
        most: int | None = None,
        seed: int = 0,
        block: int | None = None,
    ) -> "MeasuredRows":
        """Choose rows of an entry: each at most once, those without a state left out.

        Args:
            entry: the entry.
            array: name of the array; None is the one that probes read by default.
            most: draw so many, if there are more; None is all of them.
            seed: of the draw.
            block: rows to read at once; None is what ``BLOCK_BYTES`` hold.

        Raises:
            OptionError: the entry does not keep such an array, or none is to be drawn.
            EntryError: no row has a state.
        """
        name = default_array(entry) if array is None else array
        if name not in entry.arrays:
            held = ", ".join(entry.arrays)
            raise OptionError(f"--array {name}: {entry.path} holds {held}; choose one of these.")
        stored, every = entry.arrays[name], rows_with_states(entry, name)
        chosen = drawn_places(len(every), most, seed)
        if not len(every):
            raise EntryError(f"{entry.path}: no row of {name!r} has a state to measure.")
        where = f"{name!r} of {entry.path}"
        return cls(stored, every[chosen], len(every), block, where)

    def __len__(self) -> int:
        """Return how many rows are measured."""
        return len(self.rows)

    @property
    def layers(self) -> tuple[int, ...]:
        """The stored layers, ascending."""
        return tuple(self.array.layers)

    def blocks(
        self, layers: Sequence[int] | None = None
    ) -> Iterator[Float64[Tensor, "layers rows dim"]]:
        """Yield the rows block by block, of all layers or of some."""
        # Not prefetched: of rows as dense as these, what the system reads around each is the next
        # ones, and asking for each page by itself took longer on a disk (3.4 against 5.1 s).
        row_bytes = 8 * len(self.layers if layers is None else layers) * self.array.dim
        size = self.block or max(BLOCK_BYTES // row_bytes, 1)
        for start in range(0, len(self.rows), size):
            part = self.rows[start : start + size]
            yield self.array.read(part, layers).permute(1, 0, 2).double()

    def sample(self, layer: int, count: int, seed: int) -> Float64[np.ndarray, "rows dim"]:
        """Return some rows of one layer, the same ones for every layer."""
        chosen = self.rows
        if count < len(chosen):
            generator = numpy_generator(seed, "geometry sample")
            chosen = np.sort(generator.choice(chosen, count, replace=False))
        return self.array.read(chosen, [layer])[:, 0].double().numpy()

    def check_finite(self, values: Float64[Tensor, "layers rows dim"]) -> None:
        """Refuse rows that overflowed when they were stored, or computed.

        Raises:
            EntryError: a value is infinite or no number.
        """
        finite = torch.isfinite(values).flatten(1).all(1)
        if not bool(finite.all()):
            layer = self.layers[int(torch.nonzero(~finite)[0])]
            raise EntryError(
                f"{self.where}: layer {layer} holds values that are not finite, so it cannot be "
                "measured; extract again with --dtype float32."
            )


def drawn_places(count: int, most: int | None, seed: int) -> Int64[np.ndarray, " places"]:
    """Return the places of the rows that are measured, ascending.

    Args:
        count: rows that there are.
        most: draw so many, if there are more; None is all of them.
        seed: of the draw.

    Raises:
        OptionError: none is to be drawn.
    """
    if most is not None and most < 1:
        raise OptionError(f"--rows {most}: expected at least 1, or 0 for all rows.")
    if most is None or most >= count:
        return np.arange(count)
    return np.sort(numpy_generator(seed, "geometry").choice(count, most, replace=False))


def default_array(entry: Entry) -> str:
    """Return the array that probes read by default, or the first one where it is not kept."""
    kind = KINDS[entry.manifest.kind]
    usual = kind.own_rows or ("last" if entry.manifest.causal else "mean")
    return usual if usual in entry.arrays else next(iter(entry.arrays))


def rows_with_states(entry: Entry, name: str) -> Int64[np.ndarray, " rows"]:
    """Return the numbers of all rows that a token stands for, in the order of the texts."""
    examples, per = entry.examples, ARRAYS[name].per
    if per == "text":
        return examples.pooled_start[examples.n_tokens > 0].astype(np.int64)
    if per == "subword":
        return ragged_arange(examples.token_start, examples.n_tokens.astype(np.int64))
    return examples.rows[examples.valid]
