"""Take layers or arrays out of an entry: what is left is the entry that asks for the rest."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import EntryError, OptionError
from probekit.extraction.maintenance.entries import check_chunks
from probekit.extraction.maintenance.entry_copy import EntryCopy, place_of
from probekit.extraction.maintenance.parts import CopiedRows, arrays_without, part_manifest
from probekit.extraction.maintenance.removal import Removable
from probekit.store.entry import Entry
from probekit.store.files import check_room
from probekit.store.layout import PARTIAL, beside
from probekit.store.lock import EntryLock
from probekit.store.verified import VerifiedEntry


@dataclass(frozen=True)
class Reduction:
    """An entry, and what is to be left of it.

    Its request asks for less, so it has another key and lies in another folder: it is what an
    extraction with fewer layers or arrays would find, and one that wants all does not take it.

    Attributes:
        copy: what is left, as an entry of its own.
    """

    copy: EntryCopy

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
        manifest = part_manifest(source.manifest, arrays_without(source.manifest, layers, arrays))
        to = place_of(None, path, manifest.key, overwrite=False, same=True)
        rows = CopiedRows(source, manifest)
        return cls(EntryCopy(source, manifest, rows, to, overwrite=False, made_by="cache rm"))

    @property
    def entry(self) -> Entry:
        """The entry as it is."""
        return self.copy.source.entry

    @property
    def path(self) -> Path:
        """The folder of what is left."""
        return self.copy.path

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks that are left."""
        return self.copy.nbytes

    @property
    def freed(self) -> int:
        """Bytes of the chunks that go."""
        return sum(spec.nbytes for spec in self.entry.manifest.arrays) - self.nbytes

    def apply(self) -> Entry:
        """Write what is left as an entry of its own, then remove the one that it is left of.

        What is left may be there already, such as of a run that was killed; it is compared first.

        Raises:
            EntryLockedError: another process writes one of the two.
            EntryError: a chunk is damaged.
            StorageError: there is no room for what is left beside what was.
        """
        if self.copy.there:
            with EntryLock(self.path):
                check_chunks(self.path)
        else:
            check_room(
                self.path,
                self.nbytes,
                "what is left, before the rest is removed,",
                "copy what is left to another disk: probekit cache copy --layers",
            )
            self.copy.apply()
        Removable.of(self.entry.path).remove()
        return Entry.open(self.path)


def plan_reductions(
    paths: Iterable[Path], layers: str | None, arrays: Collection[str]
) -> list[Reduction]:
    """Plan what is to be left of several entries; what a killed run left of one is passed over.

    Args:
        paths: their folders.
        layers: the layers that go.
        arrays: the arrays that go.

    Raises:
        OptionError: see `Reduction.of`.
        EntryLockedError: see `Reduction.of`.
        EntryError: see `Reduction.of`.
    """
    planned: list[Reduction] = []
    refused: dict[Path, OptionError | EntryError] = {}
    for path in paths:
        try:
            planned.append(Reduction.of(path, layers=layers, arrays=arrays))
        except (OptionError, EntryError) as error:
            refused[path] = error
    left = {path for plan in planned for path in (plan.path, beside(plan.path, PARTIAL))}
    for path in refused.keys() - left:
        raise refused[path]
    return planned
