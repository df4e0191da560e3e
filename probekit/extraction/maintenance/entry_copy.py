"""Copy entries from one cache root to another: verified on the way, resumed after a kill."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.base.fingerprint import digest
from probekit.errors import EntryError
from probekit.extraction.maintenance.destination import Destination, bar_of
from probekit.extraction.maintenance.entry_part import asked_arrays
from probekit.extraction.maintenance.part import Part
from probekit.store.entry import Entry
from probekit.store.files import check_room, typed_path
from probekit.store.labels import carry_labels
from probekit.store.verified import VerifiedEntry


@dataclass(frozen=True)
class EntryCopy:
    """An entry, or a part of one, and where a copy of it is to lie.

    Attributes:
        part: what is copied.
        destination: where to.
        made_by: the command; no other one goes on with what it has begun.
    """

    part: Part
    destination: Destination
    made_by: str = "cache copy"

    @classmethod
    def of(
        cls,
        path: Path,
        root: Path,
        *,
        layers: str | None = None,
        arrays: Collection[str] = (),
        overwrite: bool = False,
    ) -> "EntryCopy":
        """Plan it; nothing is written yet.

        Args:
            path: the entry's folder.
            root: the cache root that gets the copy; it need not exist.
            layers: the layers to copy, as `asked_arrays` takes them; all if None.
            arrays: the arrays to copy; all if there are none.
            overwrite: replace an entry, or throw away a begun one, that is in the copy's place.

        Raises:
            OptionError: the root is the one that the entry lies in, or inside of an entry; or a
                layer is not there, or the folder's name is not that of its entry.
            EntryLockedError: a process is writing the entry.
            EntryNotFoundError: there is no such entry.
            EntryError: it is unfinished or damaged, or another one is in the copy's place.
        """
        source = VerifiedEntry(path)
        part = Part.of(source, asked_arrays(source.manifest, layers, arrays))
        return cls(part, Destination.of(root, path, part.manifest.key, overwrite=overwrite))

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks of the copy."""
        return self.part.nbytes

    def apply(self, report: Callable[[int], object] = lambda count: None) -> Entry:
        """Copy what is not there yet, and the labels of its text.

        A whole entry is the same byte for byte; a part has a manifest of its own.

        Args:
            report: receives the bytes of chunks that were copied since the last call.

        Raises:
            EntryLockedError: another process writes the copy.
            EntryError: a chunk or file of the source is damaged, which one is said; or another
                entry is begun in the copy's place. What was copied is kept.
            StorageError: there is no room left.
        """
        part, source, to = self.part, self.part.source, self.destination
        if to.there:
            carry_labels(source.path, source.manifest, to.labels)
            return Entry.open(to.path)
        plan = part.plan(made_by=self.made_by, source=digest(source.manifest_text))
        whole = part.manifest is source.manifest
        with to.builder(plan, source.outlines() if whole else None) as builder:
            part.copy(builder, report)
            source.check_standing()
            # first: an entry is not seen without its labels
            carry_labels(source.path, source.manifest, to.labels)
            if whole:
                return builder.complete_as(source.manifest_text, source.small_files())
            return builder.complete(part.manifest, part.table(), part.backbone())


def copy_entries(
    sources: Sequence[Path],
    root: Path,
    *,
    layers: str | None = None,
    arrays: Collection[str] = (),
    overwrite: bool = False,
    progress: bool = False,
) -> Iterator[tuple[EntryCopy, bool]]:
    """Copy entries to a cache root; yield each copy with whether it was there already.

    It works as it is iterated. All are planned, and room for them is looked for, before the first
    is copied. Where one proves damaged, the others are copied nevertheless.

    Args:
        sources: the entries' folders.
        root: the cache root that gets the copies.
        layers: the layers to copy, such as ``8,12``; all if None.
        arrays: the arrays to copy; all if there are none.
        overwrite: replace entries that are there.
        progress: show progress on stderr.

    Raises:
        ProbekitError: as `EntryCopy.of` and `EntryCopy.apply`.
    """
    planned = [
        EntryCopy.of(
            typed_path(path), typed_path(root), layers=layers, arrays=arrays, overwrite=overwrite
        )
        for path in sources
    ]
    needed = sum(copy.destination.left(copy.nbytes) for copy in planned)
    check_room(typed_path(root), needed, "this copy", "choose another root")
    damaged = []
    for copy in planned:
        to = copy.destination
        there = to.there
        try:
            with bar_of(to, copy.nbytes, shown=progress and not there) as bar:
                copy.apply(bar.report)
        except EntryError as error:
            damaged.append(error)
            continue
        yield copy, there
    if damaged:
        more = f" And {len(damaged) - 1} more entries." if len(damaged) > 1 else ""
        raise EntryError(f"{damaged[0]}{more}") from damaged[0]
