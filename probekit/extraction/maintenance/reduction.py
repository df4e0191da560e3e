"""Take layers or arrays out of an entry: what is left is the entry that asks for the rest."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import OptionError
from probekit.extraction.maintenance.part import Part, without
from probekit.extraction.maintenance.removal import Removable
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry
from probekit.store.files import check_room
from probekit.store.layout import beside_entry
from probekit.store.verified import VerifiedEntry


@dataclass(frozen=True)
class Reduction:
    """An entry, and what is to be left of it.

    Its request asks for less, so it has another key and lies in another folder: it is what an
    extraction with fewer layers or arrays would find, and one that wants all does not take it.

    Attributes:
        part: what is left, of the entry as it is.
        path: the folder of what is left.
    """

    part: Part
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
            EntryLockedError: another process writes it.
            EntryError: the entry is unfinished or damaged.
        """
        source = VerifiedEntry(path)
        Removable.of(path)  # as it is removed in the end
        part = Part.of(source, without(source.manifest, layers, arrays))
        folder = beside_entry(path, part.manifest.key)
        if folder.exists():
            raise OptionError(
                f"{folder} holds just what would be left of {path}: remove that as a whole, "
                f"probekit cache rm {path}"
            )
        return cls(part, folder)

    @property
    def entry(self) -> Entry:
        """The entry as it is."""
        return self.part.source.entry

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks that are left."""
        return self.part.nbytes

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
        check_room(
            self.path,
            self.nbytes,
            "what is left, before the rest is removed,",
            "copy what is left to another disk: probekit cache copy --layers",
        )
        part = self.part
        plan = part.plan(reduced_from=self.entry.manifest.key)
        with EntryBuilder(self.path, plan=plan) as builder:
            part.copy(builder)
            entry = builder.complete(part.manifest, part.table(), part.backbone())
        Removable.of(self.entry.path).remove()
        return entry
