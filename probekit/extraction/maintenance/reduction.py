"""Take layers or arrays out of an entry: what is left is the entry that asks for the rest."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from probekit.base.kinds import LAST_ONLY
from probekit.base.layers import parse_layers
from probekit.base.notices import human_bytes
from probekit.errors import OptionError, StorageError
from probekit.extraction.maintenance.entry_part import chosen_layers, part_manifest, part_table
from probekit.extraction.maintenance.removal import Removable
from probekit.store.arrays import ArraySpec
from probekit.store.backends import ChunkPlaces
from probekit.store.builder import EntryBuilder
from probekit.store.checksums import places_of, read_checksums, read_chunk
from probekit.store.entry import Entry
from probekit.store.files import free_bytes
from probekit.store.layout import beside_entry
from probekit.store.manifest import Manifest
from probekit.store.marks import ChunkSum


@dataclass(frozen=True)
class Reduction:
    """An entry, and what is to be left of it.

    Its request asks for less, so it has another key and lies in another folder: it is what an
    extraction with fewer layers or arrays would find, and one that wants all does not take it.

    Attributes:
        entry: the entry as it is.
        manifest: of what is left.
        path: the folder of what is left.
    """

    entry: Entry
    manifest: Manifest
    path: Path

    @classmethod
    def of(cls, path: Path, *, layers: str | None, arrays: Collection[str]) -> "Reduction":
        """Plan it; nothing is changed yet.

        Args:
            path: the entry's folder.
            layers: the layers that go, as `parse_layers` reads them; ``tokens`` keeps its one.
            arrays: the arrays that go.

        Raises:
            OptionError: it is no entry, one is not there, or nothing would be left.
            EntryError: the entry is unfinished or damaged.
        """
        entry = Entry.open(path)
        Removable.of(path)  # as it is removed in the end
        kept = _without(entry.manifest, layers, arrays)
        manifest = part_manifest(entry.manifest, kept)
        folder = beside_entry(path, manifest.key)
        if folder.exists():
            raise OptionError(
                f"{folder} holds just what would be left of {path}: remove that as a whole, "
                f"probekit cache rm {path}"
            )
        return cls(entry, manifest, folder)

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks that are left."""
        return sum(spec.nbytes for spec in self.manifest.arrays)

    @property
    def freed(self) -> int:
        """Bytes of the chunks that go."""
        return sum(spec.nbytes for spec in self.entry.manifest.arrays) - self.nbytes

    def apply(self) -> Entry:
        """Write what is left as an entry of its own, then remove the one that it is left of.

        Raises:
            EntryLockedError: another process writes one of the two.
            EntryError: a chunk is damaged.
            StorageError: there is no room for what is left beside what was.
        """
        if self.nbytes > (free := free_bytes(self.path)):
            raise StorageError(
                f"{self.path}: what is left is {human_bytes(self.nbytes)} and written before the "
                f"rest is removed; {human_bytes(free)} are free."
            )
        old = self.entry
        files = {file.name: file.read_bytes() for file in sorted(old.backbone.iterdir())}
        with EntryBuilder(self.path, plan=self._plan()) as builder:
            for unit in sorted(set(range(self._n_units)) - builder.marks.keys()):
                builder.copy_unit(unit, self._chunks(unit))
            entry = builder.complete(
                self.manifest, part_table(old.examples.table, self.manifest), files
            )
        Removable.of(old.path).remove()
        return entry

    @property
    def _n_units(self) -> int:
        return max(spec.n_row_chunks for spec in self.manifest.arrays)

    def _plan(self) -> dict[str, Any]:
        return {
            "request": dict(self.manifest.request),
            "reduced_from": self.entry.manifest.key,
            "limit": self.manifest.limit,  # `limit_of` reads it: own text is found by its part
            "backend": self.manifest.backend,
            "arrays": [spec.to_json() for spec in self.manifest.arrays],
            "units": list(range(self._n_units)),
        }

    def _chunks(self, unit: int) -> Iterator[tuple[ChunkSum, bytes]]:
        """Yield the chunks of one run of rows, at their new places among the layers."""
        for spec in self.manifest.arrays:
            if unit >= spec.n_row_chunks:
                continue
            before = self.entry.manifest.array(spec.name)
            for plain in before.plain():
                for at, layer in enumerate(spec.layers):
                    found = self._sums[plain.name, unit, before.layers.index(layer)]
                    yield (
                        replace(found, layer_index=at),
                        read_chunk(found, self._places[plain.name]),
                    )

    @cached_property
    def _places(self) -> dict[str, ChunkPlaces]:
        return places_of(self.entry.path, self.entry.manifest)

    @cached_property
    def _sums(self) -> dict[tuple[str, int, int], ChunkSum]:
        listed = read_checksums(self.entry.path, self.entry.manifest)
        return {(c.array, c.row_chunk, c.layer_index): c for c in listed}


def _without(
    manifest: Manifest, layers: str | None, arrays: Collection[str]
) -> tuple[ArraySpec, ...]:
    """Return the arrays that are left, with their layers."""
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
        kept = [
            spec if spec.name in LAST_ONLY
            else replace(spec, layers=tuple(n for n in spec.layers if n not in gone))
            for spec in kept
            if spec.name in LAST_ONLY or not set(spec.layers) <= gone
        ]  # fmt: skip
    if not kept:
        raise OptionError("nothing would be left: remove the entry as a whole, probekit cache rm.")
    return tuple(kept)
