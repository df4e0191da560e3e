"""Join what the shards of an extraction wrote, in one cache or in caches of their own, and seal it.

Neither the model nor the text is needed: shards keep a draft of the entry beside its units.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import digest
from probekit.base.notices import ProgressBar
from probekit.errors import EntryError, OptionError
from probekit.extraction.drafting import seal
from probekit.extraction.maintenance.entry_copy import copy_entries
from probekit.store import layout
from probekit.store.backends import ChunkPlaces
from probekit.store.builder import EntryBuilder
from probekit.store.checksums import ChunkSum, places_of, read_chunk
from probekit.store.entry import Entry, folder_of_key, list_entries
from probekit.store.files import plain_path, typed_path
from probekit.store.labels import carry_labels
from probekit.store.layout import ArraySpec
from probekit.store.lock import tidy
from probekit.store.unfinished import (
    Draft,
    UnitMark,
    is_drafted,
    plan_differences,
    read_marks,
    unfinished_plan,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Begun:
    """An entry that is begun: a folder of some of its units, which may be anybody's.

    Attributes:
        entry: the final folder; what is begun lies beside it.
        key: of the entry, 64 hex digits.
        plan: what its units share.
    """

    entry: Path
    key: str
    plan: Mapping[str, Any]

    @classmethod
    def at(cls, entry: Path) -> "Begun | None":
        """Return what is begun of an entry; None where nothing is.

        Args:
            entry: its final folder.
        """
        plan, partial = unfinished_plan(entry), layout.beside(entry, layout.PARTIAL)
        key = "" if plan is None else layout.proven_key(partial, layout.PLAN)
        return None if plan is None or not key else cls(entry, key, plan)

    @property
    def partial(self) -> Path:
        """The folder of its units."""
        return layout.beside(self.entry, layout.PARTIAL)

    @cached_property
    def marks(self) -> dict[int, UnitMark]:
        """The units that are written."""
        return read_marks(self.partial / layout.UNITS)

    def chunks(self, unit: int) -> Iterator[tuple[ChunkSum, Callable[[], bytes]]]:
        """Yield the chunks of a unit, each with what reads it and compares it with its checksum.

        Raises:
            EntryError: one is none of the entry's; what reads it, where it is damaged.
        """
        for chunk in self.marks[unit].chunks:
            places = self._places.get(chunk.array)
            rows, layers = (0, 0) if places is None else places.array.grid
            inside = 0 <= chunk.row_chunk < rows and 0 <= chunk.layer_index < layers
            if places is None or not inside or chunk.nbytes != places.array.chunk_nbytes:
                raise EntryError(
                    f"{self.partial}: unit {unit} claims to have written {chunk}, which is not in "
                    "its plan. Extract this shard again, into another cache."
                )
            yield chunk, partial(read_chunk, chunk, places)

    @cached_property
    def _places(self) -> Mapping[str, ChunkPlaces]:
        arrays = map(ArraySpec.from_json, self.plan["arrays"])
        return places_of(self.partial, self.plan["backend"], arrays)


def merge_shards(
    cache: Path, sources: Sequence[Path] = (), *, progress: bool = False
) -> list[Entry]:
    """Complete the entries that shards have begun in a cache.

    What shards wrote into caches of their own is copied first, chunk by chunk, each compared with
    its checksum, and so are the entries that one of them completed: those of a single unit. Sources
    are read only, and stay.

    Args:
        cache: root of the cache that holds the entries then.
        sources: roots of other caches, or folders of begun entries, which are all of one entry.
        progress: show progress on stderr.

    Returns:
        the entries that are complete now.

    Raises:
        OptionError: nothing is begun.
        EntryError: units are in none of the folders, or damaged; or folders are of different
            extractions.
        EntryLockedError: a shard is at work in the cache.
        StorageError: no space left, or no permission.
    """
    cache, sources = typed_path(cache), [typed_path(source) for source in sources]
    begun_at = {source: _named(source) for source in sources}
    named = [begun for begun in begun_at.values() if begun is not None]
    for begun in named[1:]:
        _check_alike(named[0], begun)
    roots = [source for source, begun in begun_at.items() if begun is None]
    begun_units = [*named, *(begun for root in roots for begun in _begun_under(root))]
    begun_units += _begun_under(cache) if not named else []
    others = [root for root in roots if root.resolve() != cache.resolve()]
    whole = [folder.path for root in others for folder in list_entries(root) if folder.complete]
    if not begun_units and not whole:
        raise OptionError(
            f"{cache} holds nothing unfinished that `extract --shard` began. Give the caches of "
            "the shards; `probekit cache ls` lists what there is."
        )
    entries = {entry.manifest.key: entry for entry in _copied(whole, cache, progress)}
    for key in dict.fromkeys(begun.key for begun in begun_units):
        if key not in entries:
            of_key = [begun for begun in begun_units if begun.key == key]
            entries[key] = _merged(cache, of_key, progress)
    return list(entries.values())


def _named(source: Path) -> Begun | None:
    """Return what is begun of the one entry that a source is; None where it is a cache.

    Raises:
        OptionError: it is neither.
    """
    begun = Begun.at(_final(source)) if layout.split_and_key(_final(source).name) else None
    folders = list_entries(source)
    if begun is None and not any(folder.complete or is_drafted(folder.path) for folder in folders):
        why = "nothing in it is one" if source.is_dir() else "there is no such folder"
        raise OptionError(
            f"{source}: expected a cache, or an entry, that `extract --shard` began, but {why}."
        )
    return begun


def _final(source: Path) -> Path:
    """Return the final folder of an entry that may be named by its unfinished one."""
    path = plain_path(source)
    return path.with_name(path.name.removesuffix(layout.PARTIAL)) if path.name else path


def _begun_under(root: Path) -> list[Begun]:
    """Return what shards have begun in a cache."""
    unfinished = [
        _final(folder.path)
        for folder in list_entries(root)
        if not folder.complete and is_drafted(folder.path)
    ]
    return [begun for begun in map(Begun.at, unfinished) if begun is not None]


def _copied(whole: Sequence[Path], cache: Path, progress: bool) -> Iterator[Entry]:
    """Copy complete entries into a cache; what shards have begun of one there gives way to it."""
    begun = {
        part.key for part in _begun_under(cache) if not (part.entry / layout.MANIFEST).is_file()
    }
    for gives_way in (False, True):
        some = [path for path in whole if (layout.proven_key(path) in begun) == gives_way]
        for copy, _ in copy_entries(some, cache, overwrite=gives_way, progress=progress):
            yield Entry.open(copy.path)


def _check_alike(first: Begun, other: Begun) -> None:
    """Refuse units that do not belong together.

    Raises:
        EntryError: they are of different extractions; says in what they differ.
    """
    if digest(first.plan) != digest(other.plan):
        differing = "; ".join(plan_differences(first.plan, other.plan, between=" and"))
        raise EntryError(
            f"{first.partial} and {other.partial} are from different extractions: {differing}. "
            "Merge shards of the same model, text and options, computed in the same dtype."
        )


def _merged(cache: Path, parts: Sequence[Begun], progress: bool) -> Entry:
    first = parts[0]
    model, task, name = first.entry.parts[-3:]
    split, _ = layout.split_and_key(name) or (name, "")
    folder = folder_of_key(cache, split, first.key) or cache / model / task / name
    if (folder / layout.MANIFEST).is_file():
        tidy(folder)
        logger.info("complete already: %s", folder)
        return Entry.open(folder)
    for other in parts[1:]:
        _check_alike(first, other)
    elsewhere = [begun for begun in parts if begun.entry.resolve() != folder.resolve()]
    drafted = [begun.partial for begun in parts if is_drafted(begun.partial)]
    draft_in = (drafted or [first.partial])[0]
    with EntryBuilder(folder, plan=first.plan, draft=lambda: Draft.read(draft_in)) as builder:
        # of a unit that several have, the first one's is copied
        todo = {unit: begun for begun in reversed(elsewhere) for unit in begun.marks}
        todo = {unit: todo[unit] for unit in builder.left if unit in todo}
        sizes = {unit: sum(c.nbytes for c in todo[unit].marks[unit].chunks) for unit in todo}
        with ProgressBar(
            total=sum(sizes.values()), desc="merge", unit="B", unit_scale=True, shown=progress
        ) as bar:
            for unit, begun in todo.items():
                builder.copy_unit(unit, begun.chunks(unit), stats=begun.marks[unit].stats)
                bar.report(sizes[unit])
        if left := builder.left:
            raise EntryError(
                f"{folder}: {len(left)} of {len(first.plan['units'])} units are in none of the "
                f"folders (first: {left[0]}). Run the unfinished shards again, or give their "
                "caches as well; what is merged already is kept."
            )
        draft = Draft.read(builder.partial)
        for begun in elsewhere:
            carry_labels(begun.entry, draft.manifest, layout.labels_folder(folder))
        return seal(builder, draft)
