"""Rows of an entry, read chunk by chunk, in the places that another stored dtype gives them.

A dtype of another width has chunks of other rows, so units and first rows are others as well: they
are laid out anew, as an extraction lays them out.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.kinds import ARRAYS
from probekit.base.machine.hardware import usable_cores
from probekit.base.numbers.ragged import ragged_arange
from probekit.errors import EntryError
from probekit.extraction.compute import LayerStatistics
from probekit.extraction.plan import lay_out
from probekit.extraction.units import Unit, example_row_starts, unit_share
from probekit.store.arrays import ArraySpec, FeatureDtype
from probekit.store.codec import READ_DTYPES, TORCH_DTYPES, decode_chunk
from probekit.store.tables import STARTS
from probekit.store.verified import VerifiedEntry

_MOST_DECODED = 4  # at a time: torch gives each thread helpers of its own


@dataclass(frozen=True, kw_only=True, eq=False)
class Restored:
    """The rows of an entry, to be stored in another dtype.

    Attributes:
        source: the entry.
        arrays: its arrays by name, as they are to be stored.
        units: the units of these, in data-set order.
        counts: per array, the rows of each example.
    """

    source: VerifiedEntry
    arrays: Mapping[str, ArraySpec]
    units: Sequence[Unit]
    counts: Mapping[str, Int64[np.ndarray, " examples"]]

    @classmethod
    def of(cls, source: VerifiedEntry, dtype: FeatureDtype) -> "Restored":
        """Lay out an entry in another dtype.

        Raises:
            EntryError: the entry has an array that no extraction makes, or its table does not say
                where an array's rows are.
        """
        examples, manifest = source.examples, source.manifest
        by_what = {
            "word": examples.n_rows.astype(np.int64),
            "prediction": examples.n_rows.astype(np.int64),
            "subword": examples.n_tokens.astype(np.int64),
            "text": np.ones(len(examples), np.int64),
        }
        counts = {}
        for spec in manifest.arrays:
            if spec.name not in ARRAYS or spec.dim != manifest.dim:
                raise EntryError(f"{source.path}: array {spec.name!r} is of no kind that is known.")
            counts[spec.name] = by_what[ARRAYS[spec.name].per]
            if ((examples.starts(spec.name) < 0) & (counts[spec.name] > 0)).any():
                raise EntryError(
                    f"{source.path}: its examples do not say where their rows of {spec.name} are."
                )
        arrays, units = lay_out(
            counts,
            {spec.name: spec.layers for spec in manifest.arrays},
            manifest.dim,
            dtype,
            unit_share(int(by_what["subword"].sum()), manifest.n_blocks, manifest.dim),
        )
        return cls(source=source, arrays=arrays, units=units, counts=counts)

    def read(self, index: int, *, exact: bool = False) -> dict[str, Float[Tensor, "layers _ dim"]]:
        """Return the rows of a unit per array, verified.

        Args:
            index: of the unit.
            exact: as the source is read; else rounded already, where the new dtype is narrower.

        Raises:
            EntryError: a chunk is damaged.
        """
        unit, blocks = self.units[index], {}
        for name, spec in self.arrays.items():
            before = READ_DTYPES[self.source.manifest.array(name).dtype]
            after = before if exact or spec.dtype == "int8" else TORCH_DTYPES[spec.dtype]
            dtype = min(before, after, key=lambda dtype: dtype.itemsize)
            blocks[name] = torch.empty(len(spec.layers), unit.rows[name], spec.dim, dtype=dtype)
        tasks = [
            (name, layer_index, *part)
            for name, spec in self.arrays.items()
            for part in self._parts(name, unit)
            for layer_index in range(len(spec.layers))
        ]

        def fill(task: tuple[str, int, int, Tensor, Tensor]) -> None:
            name, layer_index, row_chunk, into, within = task
            stored = self._stored(name, row_chunk, layer_index)
            decoded = decode_chunk(self.source.manifest.array(name), stored)
            block = blocks[name][layer_index]
            block.index_copy_(0, into, decoded.index_select(0, within).to(block.dtype))

        threads = min(_MOST_DECODED, usable_cores())
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(fill, tasks):
                pass
        return blocks

    def largest(self) -> dict[str, tuple[float, ...]]:
        """Return the largest |x| of each layer, per array, in the unit with most subwords."""
        tokens = self.source.examples.n_tokens.astype(np.int64)
        sums = [int(tokens[unit.start : unit.stop].sum()) for unit in self.units]
        blocks = self.read(int(np.argmax(sums)), exact=True)
        return {name: LayerStatistics.of(block).max_abs for name, block in blocks.items()}

    def table(self) -> pa.Table:
        """Return the example table, with the first rows of the new layout."""
        table = self.source.examples.table
        starts = example_row_starts(self.units, self.counts)
        for column, arrays in STARTS.items():
            for name in arrays:
                if name in starts:
                    at, field = table.column_names.index(column), table.schema.field(column)
                    table = table.set_column(at, field, pa.array(starts[name], field.type))
        return table

    def unit_nbytes(self, index: int) -> int:
        """Return the bytes of a unit's chunks."""
        unit = self.units[index]
        return sum(
            unit.chunks[name] * plain.chunk_nbytes * plain.grid[1]
            for name, spec in self.arrays.items()
            for plain in spec.plain()
        )

    def _parts(self, name: str, unit: Unit) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the chunks that hold a unit's rows: which, their places in the unit, and in it."""
        some = slice(unit.start, unit.stop)
        first = self.source.examples.starts(name)[some]
        rows = ragged_arange(first, self.counts[name][some])
        chunk, within = np.divmod(rows, self.source.manifest.array(name).chunk_rows)
        for row_chunk in np.unique(chunk):
            into = np.flatnonzero(chunk == row_chunk)
            yield int(row_chunk), torch.from_numpy(into), torch.from_numpy(within[into])

    def _stored(self, name: str, row_chunk: int, layer_index: int) -> dict[str, bytes]:
        """Return the bytes of a chunk, by plain array name."""
        source, arrays = self.source, self.source.manifest.array(name).plain()
        sums = [source.sum_of(plain.name, row_chunk, layer_index) for plain in arrays]
        return {found.array: source.chunk(found) for found in sums}
