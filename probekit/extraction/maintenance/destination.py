"""Where an entry that is made of another one lies, in the same cache or in another."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import digest
from probekit.base.notices import ProgressBar
from probekit.errors import EntryError, OptionError
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry, folder_of_key
from probekit.store.files import disk_bytes, plain_path
from probekit.store.layout import (
    MANIFEST,
    PARTIAL,
    beside,
    entry_folder,
    labels_folder,
    proven_key,
    split_and_key,
    standing,
)
from probekit.store.lock import tidy
from probekit.store.marks import unfinished_plan
from probekit.store.verified import FileOutline

PULL = "cache pull"
"""Made by this, what is begun of a place that has changed since is begun anew."""


@dataclass(frozen=True)
class Destination:
    """The place of an entry, and what is done about one that is there.

    Attributes:
        path: its folder.
        overwrite: whether an entry that is there, finished or not, is replaced.
    """

    path: Path
    overwrite: bool

    @classmethod
    def of(
        cls, root: Path | None, source: Path, key: str, *, overwrite: bool, same: bool = False
    ) -> "Destination":
        """Find the place of an entry in a cache root: where its key is already, or else new.

        Args:
            root: the cache root, which need not exist; that of the source if None.
            source: the folder of the entry that it is made of: model, task and split are called as
                there.
            key: the key of what is made.
            overwrite: whether an entry that is there, finished or not, is replaced.
            same: whether the root may be the one that the source lies in.

        Raises:
            OptionError: it may not be, or the root lies inside of an entry; or the source's folder
                has not the name of an entry.
            EntryError: another entry, or a damaged one, is in the place.
        """
        typed, source = source, plain_path(source)
        named = split_and_key(source.name)
        if named is None or len(source.parts) < 4 or not _is_named(source):
            raise OptionError(
                f"{source} does not have the name of the entry in it. Give the folder its old "
                "name, <root>/<model>/<task>/<split>-<first 8 digits of the key>."
            )
        if root is None:  # as it was typed, if that says it
            root = (typed if len(typed.parts) > 3 else source).parents[2]
        for above in (there := plain_path(root), *there.parents):
            if (above / MANIFEST).is_file():
                raise OptionError(f"{root} lies in an entry, {above}. Give the root of a cache.")
        if not same and source.parents[2].resolve() == root.resolve():
            raise OptionError(f"{source} is in {root} already: give another root to copy it to.")
        model, task, split = *source.parts[-3:-1], named[0]
        place = folder_of_key(root, split, key, task) or entry_folder(root, model, task, split, key)
        if place.exists() and not overwrite:
            _check_entry(place, key)
        return cls(place, overwrite)

    @property
    def there(self) -> bool:
        """Whether there is such an entry already, which is left alone."""
        return self.path.exists() and not self.overwrite

    @property
    def labels(self) -> Path:
        """The folder of its labels."""
        return labels_folder(self.path)

    def left(self, nbytes: int) -> int:
        """Return the bytes that are still to be written of so many."""
        return 0 if self.there else max(nbytes - disk_bytes(beside(self.path, PARTIAL)), 0)

    def builder(
        self, plan: Mapping[str, Any], outlines: Mapping[str, FileOutline] | None = None
    ) -> EntryBuilder:
        """Start or go on building the entry.

        Args:
            plan: as for `EntryBuilder`; ``made_by`` says which command it is of.
            outlines: as for `EntryBuilder`.

        Raises:
            EntryError: another one was begun there, and is not to be thrown away.
            EntryLockedError: another process builds it.
            StorageError: the folder cannot be written.
        """
        begun = unfinished_plan(self.path)
        afresh = begun is not None and begun.get("made_by") == plan.get("made_by") == PULL
        other = begun is not None and digest(begun) != digest(dict(plan))
        if begun is not None and other and not (self.overwrite or afresh):
            by = begun.get("made_by", "extract")
            partial = beside(self.path, PARTIAL)
            raise EntryError(
                f"{partial} was begun by `probekit {by!s:.20}`, of another source or with other "
                "options. Give --overwrite to throw away what is done, or remove it: "
                f"probekit cache rm {partial}"
            )
        return EntryBuilder(
            self.path,
            plan=plan,
            overwrite=self.overwrite,
            restart=self.overwrite or afresh,
            outlines=outlines,
        )


def _is_named(source: Path) -> bool:
    return bool(proven_key(standing(source) / MANIFEST, source))


def _check_entry(place: Path, key: str) -> None:
    try:
        there = Entry.open(place).manifest.key
    except EntryError as error:
        raise EntryError(f"{place} is in the way, and damaged: {error}") from None
    if there != key:
        raise EntryError(
            f"{place} holds another entry, whose key begins in the same way ({key[:16]}... is "
            f"wanted, {there[:16]}... is there). Choose another root."
        )
    tidy(place)


def bar_of(to: Destination, nbytes: int, *, shown: bool) -> ProgressBar:
    """Return a bar over the bytes of an entry's chunks."""
    model, task = to.path.parts[-3:-1]
    split = to.path.name.rpartition("-")[0]
    return ProgressBar(
        total=nbytes, desc=f"{model} {task} {split}", unit="B", unit_scale=True, shown=shown
    )
