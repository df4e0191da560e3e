"""Some layers or arrays of an entry, or all of it, as an entry of its own: chunks as they lie."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from probekit.base.kinds import LAST_ONLY
from probekit.base.layers import parse_layers
from probekit.errors import OptionError
from probekit.extraction.maintenance.entry_part import chosen_layers, part_manifest, part_table
from probekit.store.arrays import ArraySpec
from probekit.store.builder import EntryBuilder
from probekit.store.layout import BACKBONE
from probekit.store.manifest import Manifest
from probekit.store.marks import ChunkSum
from probekit.store.verified import VerifiedEntry


@dataclass(frozen=True)
class Part:
    """An entry whose chunks are all chunks of another one.

    Attributes:
        source: the other one.
        manifest: of the part; its request asks for just this, so it has a key of its own.
    """

    source: VerifiedEntry
    manifest: Manifest

    @classmethod
    def of(cls, source: VerifiedEntry, kept: Sequence[ArraySpec]) -> "Part":
        """Plan it.

        Args:
            source: the entry.
            kept: the arrays that are kept, with the layers that are: see `asked_arrays` and
                `without`.
        """
        return cls(source, part_manifest(source.manifest, tuple(kept)))

    @property
    def nbytes(self) -> int:
        """Bytes of its chunks."""
        return sum(spec.nbytes for spec in self.manifest.arrays)

    @property
    def n_units(self) -> int:
        """Number of its units: a unit is one run of rows, of all arrays and layers."""
        return max(spec.n_row_chunks for spec in self.manifest.arrays)

    def plan(self, **more: Any) -> dict[str, Any]:
        """Return what an `EntryBuilder` must know, and what a resumed one must share.

        Args:
            more: JSON values that it must share as well.
        """
        return {
            "request": dict(self.manifest.request),
            "limit": self.manifest.limit,  # `limit_of` reads it: own text is found by its part
            "backend": self.manifest.backend,
            "arrays": [spec.to_json() for spec in self.manifest.arrays],
            "units": list(range(self.n_units)),
            **more,
        }

    def chunks(self, unit: int) -> Iterator[tuple[ChunkSum, Callable[[], bytes]]]:
        """Yield the chunks of a unit at their new places among the layers, each with what reads it.

        That raises `EntryError` where it is damaged.
        """
        for spec in self.manifest.arrays:
            if unit >= spec.n_row_chunks:
                continue
            before = self.source.manifest.array(spec.name)
            for plain in before.plain():
                for at, layer in enumerate(spec.layers):
                    found = self.source.sum_of(plain.name, unit, before.layers.index(layer))
                    yield replace(found, layer_index=at), partial(self.source.chunk, found)

    def copy(
        self, builder: EntryBuilder, report: Callable[[int], object] = lambda count: None
    ) -> None:
        """Copy the units that are not marked yet.

        Args:
            builder: of what it is to be, with the plan of the part.
            report: receives the bytes of chunks that are there, unit by unit.

        Raises:
            EntryError: a chunk is damaged.
            StorageError: there is no room left.
        """
        for unit in range(self.n_units):
            if unit not in builder.marks:
                builder.copy_unit(unit, self.chunks(unit))
            report(self.unit_nbytes(unit))

    def unit_nbytes(self, unit: int) -> int:
        """Return the bytes of a unit's chunks."""
        return sum(
            plain.chunk_nbytes * plain.grid[1]
            for spec in self.manifest.arrays
            for plain in spec.plain()
            if unit < spec.n_row_chunks
        )

    def table(self) -> pa.Table:
        """Return the example table, in which arrays that went have no first row."""
        return part_table(self.source.examples.table, self.manifest)

    def backbone(self) -> dict[str, bytes]:
        """Return the contents of ``backbone/`` by file name, verified.

        Raises:
            EntryError: one is damaged.
        """
        found = {PurePosixPath(name): data for name, data in self.source.small_files().items()}
        return {path.name: data for path, data in found.items() if path.parts[0] == BACKBONE}


def without(
    manifest: Manifest, layers: str | None, arrays: Collection[str]
) -> tuple[ArraySpec, ...]:
    """Return the arrays that are left, with the layers that are.

    Args:
        manifest: of the entry.
        layers: the layers that go, as `parse_layers` reads them; ``tokens`` keeps its one.
        arrays: the arrays that go.

    Raises:
        OptionError: a layer is not in the entry, or nothing would be left.
        EntryError: an array is not.
    """
    for name in arrays:
        manifest.array(name)
    kept = [spec for spec in manifest.arrays if spec.name not in arrays]
    if layers is not None:
        gone = set(parse_layers(layers, manifest.n_blocks))
        held = chosen_layers(kept)
        if not gone <= held:
            raise OptionError(
                f"--layers {layers}: layer {min(gone - held)} is in no array that is left but "
                f"{', '.join(LAST_ONLY)}, which keeps its own; there are {sorted(held)}."
            )
        kept = _with_layers(kept, held - gone)
    if not kept:
        raise OptionError("nothing would be left: remove the entry as a whole, probekit cache rm.")
    return tuple(kept)


def _with_layers(arrays: Iterable[ArraySpec], layers: Collection[int]) -> list[ArraySpec]:
    """Return the arrays with some layers each, less those that then have none."""
    found = []
    for spec in arrays:
        kept = tuple(n for n in spec.layers if n in layers)
        if spec.name in LAST_ONLY:
            found.append(spec)
        elif kept:
            found.append(replace(spec, layers=kept))
    return found
