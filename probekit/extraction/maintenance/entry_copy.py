"""Make an entry of another one: in the same cache or in another, all of it, a part, or converted.

Every byte is verified on the way, and what a kill interrupts goes on.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from probekit.base.fingerprint import digest
from probekit.base.notices import ProgressBar
from probekit.base.registry import PathName
from probekit.errors import EntryError, OptionError
from probekit.extraction.maintenance.parts import CopiedRows, asked_arrays, part_manifest
from probekit.store import layout
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry, folder_of_key
from probekit.store.files import check_room, disk_bytes, plain_path, typed_path
from probekit.store.labels import carry_labels
from probekit.store.lock import tidy
from probekit.store.manifest import Manifest
from probekit.store.unfinished import unfinished_plan
from probekit.store.verified import FileOutline, VerifiedEntry

PULL = "cache pull"
"""Made by this, what is begun of a place that has changed since is begun anew."""


def place_of(
    root: Path | None, source: Path, key: str, *, overwrite: bool, same: bool = False
) -> Path:
    """Return the folder of an entry in a cache root: where its key is already, or else a new one.

    Args:
        root: the cache root, which need not exist; that of the source if None.
        source: the folder of the entry that it is made of: model, task and split are called as
            there.
        key: the key of what is made.
        overwrite: whether an entry that is there, finished or not, is replaced.
        same: whether the root may be the one that the source lies in.

    Raises:
        OptionError: it may not be, or the root lies inside of an entry; or the source's folder has
            not the name of an entry.
        EntryError: another entry, or a damaged one, is in the place.
    """
    typed, source = source, plain_path(source)
    named = layout.split_and_key(source.name)
    if named is None or len(source.parts) < 4 or not layout.proven_key(layout.standing(source)):
        raise OptionError(
            f"{source}: the folder's name is not that of the entry in it. Rename it back to "
            "<root>/<model>/<task>/<split>-<first 8 digits of the key>."
        )
    if root is None:  # as it was typed, if that says it
        root = (typed if len(typed.parts) > 3 else source).parents[2]
    for above in (there := plain_path(root), *there.parents):
        if (above / layout.MANIFEST).is_file():
            raise OptionError(f"{root} is inside an entry, {above}. Give the root of a cache.")
    if not same and source.parents[2].resolve() == root.resolve():
        raise OptionError(f"{source} is in {root} already: give another root to copy it to.")
    model, task, split = *source.parts[-3:-1], named[0]
    path = folder_of_key(root, split, key, task) or layout.entry_folder(
        root, model, task, split, key
    )
    if path.exists() and not overwrite:
        _check_entry(path, key)
    return path


def _check_entry(path: Path, key: str) -> None:
    """Refuse a place where another entry lies, or a damaged one."""
    try:
        there = Entry.open(path).manifest.key
    except EntryError as error:
        raise EntryError(f"{path} is in the way, and damaged: {error}") from None
    if there != key:
        raise EntryError(
            f"{path} holds another entry, whose key begins the same way ({key[:16]}... is wanted, "
            f"{there[:16]}... is there). Choose another root."
        )
    tidy(path)


class Rows(Protocol):
    """The rows of an entry as another one is to hold them."""

    @property
    def units(self) -> Sequence[Any]:
        """The units that they are written in, as JSON values."""

    def write(self, builder: EntryBuilder, report: Callable[[int], object]) -> None:
        """Write the units that are not marked yet, and report the bytes of each that is there."""

    def table(self) -> pa.Table:
        """Return the example table, with the first rows in their new places."""


@dataclass(frozen=True)
class EntryCopy:
    """An entry, and the one that is made of it.

    Attributes:
        source: the entry.
        manifest: of the other one; the same where all of it is copied.
        rows: its rows.
        path: its folder.
        overwrite: whether an entry that is there, finished or not, is replaced.
        made_by: the command; no other one goes on with what it has begun.
    """

    source: VerifiedEntry
    manifest: Manifest
    rows: Rows
    path: Path
    overwrite: bool
    made_by: str

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
        """Plan a copy; nothing is written yet.

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
        return cls.part_of(VerifiedEntry(path), root, layers, arrays, overwrite=overwrite)

    @classmethod
    def part_of(
        cls,
        source: VerifiedEntry,
        root: Path,
        layers: str | None,
        arrays: Collection[str],
        *,
        overwrite: bool = False,
        made_by: str = "cache copy",
    ) -> "EntryCopy":
        """Plan a copy of an entry that is open; arguments and errors as of `of`."""
        manifest = part_manifest(source.manifest, asked_arrays(source.manifest, layers, arrays))
        path = place_of(root, source.named, manifest.key, overwrite=overwrite)
        return cls(source, manifest, CopiedRows(source, manifest), path, overwrite, made_by)

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks of what is made."""
        return sum(spec.nbytes for spec in self.manifest.arrays)

    @property
    def there(self) -> bool:
        """Whether there is such an entry already, which is left alone."""
        return self.path.exists() and not self.overwrite

    @property
    def nbytes_left(self) -> int:
        """Bytes of chunks that are still to be written."""
        begun = disk_bytes(layout.beside(self.path, layout.PARTIAL))
        return 0 if self.there else max(self.nbytes - begun, 0)

    @property
    def rounded(self) -> bool:
        """Whether its rows are others than an extraction with these options would store."""
        return bool(self.manifest.request.get("through"))

    def apply(self, report: Callable[[int], object] = lambda count: None) -> Entry:
        """Write what is not there yet, and the labels of its text.

        A whole entry is the same byte for byte; what differs has a manifest of its own.

        Args:
            report: receives the bytes of chunks that were written since the last call.

        Raises:
            EntryLockedError: another process writes the entry.
            EntryError: a chunk or file of the source is damaged, which one is said; or another
                entry is begun in the place. What was written is kept.
            StateRangeError: a value does not fit the dtype.
            StorageError: there is no room left.
        """
        source, manifest, labels = self.source, self.manifest, layout.labels_folder(self.path)
        if self.there:
            carry_labels(source.path, source.manifest, labels)
            return Entry.open(self.path)
        plan = {
            "request": dict(manifest.request),
            "limit": manifest.limit,  # `limit_of` reads it: own text is found by its part
            "backend": manifest.backend,
            "arrays": [spec.to_json() for spec in manifest.arrays],
            "units": self.rows.units,
            "made_by": self.made_by,
            "source": digest(source.manifest_text),
        }
        # an entry whose text was put back has other files than the one that was pushed
        whole = manifest is source.manifest and layout.EXAMPLES in manifest.files
        with self._builder(plan, source.outlines() if whole else None) as builder:
            self.rows.write(builder, report)
            source.check_standing()
            # first: an entry is not seen without its labels
            carry_labels(source.path, source.manifest, labels)
            if whole:
                return builder.complete_as(source.manifest_text, source.small_files())
            return builder.complete(manifest, self.rows.table(), source.backbone_files())

    def _builder(
        self, plan: Mapping[str, Any], outlines: Mapping[str, FileOutline] | None
    ) -> EntryBuilder:
        """Start or go on building the entry; arguments as for `EntryBuilder`.

        Raises:
            EntryError: another one was begun there, and is not to be thrown away.
        """
        begun, overwrite = unfinished_plan(self.path), self.overwrite
        if begun is not None and begun.get("made_by") == self.made_by == PULL:
            overwrite = True  # what is begun of a place that has changed since
        elif begun is not None and digest(begun) != digest(plan) and not overwrite:
            by, partial = begun.get("made_by", "extract"), layout.beside(self.path, layout.PARTIAL)
            raise EntryError(
                f"{partial} was begun by `probekit {by:.20}`, from another source or with other "
                "options. Give --overwrite to discard it, or remove it: probekit cache rm "
                f"{partial}"
            )
        return EntryBuilder(
            self.path, plan=plan, overwrite=self.overwrite, restart=overwrite, outlines=outlines
        )

    def bar(self, *, shown: bool) -> ProgressBar:
        """Return a bar over the bytes of the entry's chunks."""
        model, task = self.path.parts[-3:-1]
        said = f"{model} {task} {self.path.name.rpartition('-')[0]}"
        return ProgressBar(total=self.nbytes, desc=said, unit="B", unit_scale=True, shown=shown)


def copy_entries(
    sources: Sequence[PathName],
    root: PathName,
    *,
    layers: str | None = None,
    arrays: Collection[str] = (),
    overwrite: bool = False,
    progress: bool = False,
) -> Iterator[tuple[EntryCopy, bool]]:
    """Copy entries to a cache root; yield each copy with whether it was there already.

    It works as it is iterated, as `make_entries` does.

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
    to = typed_path(root)
    planned = [
        EntryCopy.of(typed_path(path), to, layers=layers, arrays=arrays, overwrite=overwrite)
        for path in sources
    ]
    yield from make_entries(planned, "this copy", progress=progress)


def make_entries(
    planned: Sequence[EntryCopy], what: str, *, progress: bool
) -> Iterator[tuple[EntryCopy, bool]]:
    """Make entries; yield each with whether it was there already.

    Room for all of them is looked for before the first is written. Where the source of one proves
    damaged, the others are made nevertheless.

    Args:
        planned: the entries.
        what: they are, for the message: ``this copy``.
        progress: show progress on stderr.

    Raises:
        ProbekitError: as `EntryCopy.apply`.
    """
    needed = Counter[Path]()
    for copy in planned:
        needed[copy.path.parents[2]] += copy.nbytes_left
    for root, nbytes in needed.items():
        check_room(root, nbytes, what, "choose another root")
    damaged = []
    for copy in planned:
        there = copy.there
        try:
            with copy.bar(shown=progress and not there) as bar:
                copy.apply(bar.report)
        except EntryError as error:
            damaged.append(error)
            continue
        yield copy, there
    if damaged:
        more = f" And {len(damaged) - 1} more entries." if len(damaged) > 1 else ""
        raise EntryError(f"{damaged[0]}{more}") from damaged[0]
