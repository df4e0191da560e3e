"""Unfinished entries: their plan, marks of whole units, and what they are to hold besides rows.

A mark is written, by rename, after all chunks of its unit are on the disk. What a killed run leaves
without a mark is written again; what it leaves with one is kept. What is laid down besides chunks
is compared at the seal: shards write chunks into these files for hours. All is read without trust:
it may be anybody's folder.
"""

import logging
import re
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from probekit.base import fingerprint
from probekit.base.fingerprint import canonical_json, digest, with_checksum
from probekit.base.replacing import is_workshop, matching
from probekit.errors import EntryError, EntryNotFoundError, OptionError
from probekit.store import layout
from probekit.store.backends import BACKENDS, ChunkPlaces
from probekit.store.checksums import ChunkSum, other_files
from probekit.store.files import walk_files, write_whole
from probekit.store.json_types import read_object
from probekit.store.layout import ArraySpec
from probekit.store.manifest import Manifest, manifest_in
from probekit.store.tables import EXAMPLE_SCHEMA, OPTIONAL_SCHEMA, read_table, table_bytes

logger = logging.getLogger(__name__)

_READERS = 8  # of marks, each of which may be a request

_SHORT = 80
"""Characters of two values that a message shows."""

_LAID_OUT = ("arrays", "units")
"""What a plan makes of its other values."""

_SUMS = "sums.json"
"""In a draft: the checksums of its files."""

_NAMES = (layout.MANIFEST, layout.EXAMPLES, layout.CHECKSUMS, layout.PLAN, layout.LAID)
_FILES = re.compile(
    "|".join(map(re.escape, _NAMES))
    + rf"|{layout.UNITS}/\d+\.json|{layout.SHARDS}/[^/]+\.lock(\.json)?|{layout.DRAFT}/.+"
    + "".join(rf"|{re.escape(one.filename)}(\.new)?{one.inside}" for one in BACKENDS.values())
)
"""Paths of the files of an entry, whole or not, but those of its model."""


@dataclass(frozen=True, slots=True)
class UnitMark:
    """One finished unit.

    Attributes:
        unit: its index in the plan.
        chunks: checksums of everything it wrote.
        stats: what the caller wants to know of it when all units are done; JSON values.
    """

    unit: int
    chunks: tuple[ChunkSum, ...]
    stats: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """Write the mark, whole."""
        chunks = [[c.array, c.row_chunk, c.layer_index, c.nbytes, c.xxh128] for c in self.chunks]
        mark = with_checksum({"unit": self.unit, "chunks": chunks, "stats": dict(self.stats)})
        write_whole(folder / f"{self.unit:06d}.json", canonical_json(mark).encode())


def read_marks(folder: Path) -> dict[int, UnitMark]:
    """Return the marks of a folder by unit; a file that is not a mark counts as none."""
    marks = {}
    with ThreadPoolExecutor(_READERS) as pool:
        objects = list(pool.map(read_object, matching(folder, "*.json")))
    for values in (content or {} for content in objects):
        if fingerprint.is_changed(values):
            continue  # its unit is written again
        try:
            chunks = tuple(ChunkSum(*chunk) for chunk in values["chunks"])
            mark = UnitMark(int(values["unit"]), chunks, values["stats"])
        except (ValueError, KeyError, TypeError):
            continue
        marks[mark.unit] = mark
    return marks


def unfinished_units(path: Path) -> frozenset[int]:
    """Return the units that the unfinished build of an entry has finished.

    Args:
        path: the entry's final folder.
    """
    return frozenset(read_marks(layout.beside(path, layout.PARTIAL) / layout.UNITS))


def unfinished_plan(path: Path) -> dict[str, Any] | None:
    """Return the plan of the unfinished build of an entry, or None if there is none.

    Args:
        path: the entry's final folder.
    """
    plan = read_object(layout.beside(path, layout.PARTIAL) / layout.PLAN) or {}
    try:
        return plan if plan["arrays"] and all(map(ArraySpec.from_json, plan["arrays"])) else None
    except (EntryError, KeyError, TypeError):  # no build, or one torn at its start: begin afresh
        return None


def check_resumable(path: Path, plan: Mapping[str, Any]) -> None:
    """Refuse to throw finished units away: those of an unfinished build with another plan.

    Args:
        path: the entry's final folder.
        plan: that of the build that is wanted.

    Raises:
        EntryError: there are such units.
    """
    begun, done = unfinished_plan(path), unfinished_units(path)
    if begun is None or not done or digest(begun) == digest(plan):
        return
    finished = f"{path}: {len(done)} of {len(begun['units'])} units are finished"
    if isinstance(made_by := begun.get("made_by"), str):
        raise EntryError(
            f"{finished}, by `probekit {made_by:.20}`. Run that command again to finish it, or "
            "give --overwrite to discard them."
        )
    raise EntryError(
        f"{finished}, by an extraction with other options: "
        f"{'; '.join(plan_differences(begun, plan))}. Give those options to finish it, or "
        "--overwrite to discard them."
    )


def plan_differences(
    begun: Mapping[str, Any], plan: Mapping[str, Any], between: str = ", now"
) -> list[str]:
    """Say in what an unfinished build differs from another: short values, or just their names.

    Args:
        begun: the plan of the one.
        plan: the plan of the other.
        between: what stands between their values.
    """
    earlier, later = ({**values.get("request", {}), **values} for values in (begun, plan))
    names = [name for name, value in later.items() if earlier.get(name) != value]
    said = [
        f"{name} {earlier.get(name)}{between} {later[name]}"
        for name in names
        if name not in _LAID_OUT and len(f"{earlier.get(name)}{later[name]}") <= _SHORT
    ]
    return said or [f"other {name}" for name in names if name != "request"]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An entry but for its rows.

    Attributes:
        manifest: what it is; its statistics, and how rows were computed, are still to come.
        examples: the example table.
        files: contents of ``backbone/`` by file name.
    """

    manifest: Manifest
    examples: pa.Table
    files: Mapping[str, bytes]

    def sealed(self, statistics: Mapping[str, Any], **extra: Any) -> Manifest:
        """Return the manifest of the entry as it is now that its units are written.

        Args:
            statistics: of all rows.
            extra: what is to be added to the manifest's ``extra``.
        """
        created = datetime.now(UTC).isoformat(timespec="seconds")
        extra = {**self.manifest.extra, **extra}
        return replace(self.manifest, statistics=statistics, extra=extra, created=created)

    def write(self, partial: Path) -> None:
        """Write it into the folder of an entry under construction, its checksums last."""
        folder = partial / layout.DRAFT
        (folder / layout.BACKBONE).mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            write_whole(folder / layout.BACKBONE / name, data)
        write_whole(folder / layout.EXAMPLES, table_bytes(self.examples))
        write_whole(folder / layout.MANIFEST, self.manifest.to_json().encode())
        write_whole(folder / _SUMS, canonical_json(with_checksum(_sums(folder))).encode())

    @classmethod
    def read(cls, partial: Path) -> "Draft":
        """Read it from the folder of an entry under construction.

        Raises:
            EntryNotFoundError: none is there.
            EntryError: it is damaged.
        """
        folder = partial / layout.DRAFT
        if not is_drafted(partial):
            raise EntryNotFoundError(
                f"{partial} was not started by `extract --shard`, so it cannot be finished this "
                "way. Run the command that started it again: it resumes."
            )
        return cls(
            manifest=manifest_in(folder),
            examples=read_table(folder / layout.EXAMPLES, EXAMPLE_SCHEMA, OPTIONAL_SCHEMA),
            files={file.name: file.read_bytes() for file in (folder / layout.BACKBONE).iterdir()},
        )


def is_drafted(partial: Path) -> bool:
    """Say whether the folder of an entry under construction holds a draft, as it was written."""
    folder = partial / layout.DRAFT
    if (sums := read_object(folder / _SUMS)) is None:
        return False
    whole = sums == with_checksum(_sums(folder))
    if not whole:
        logger.warning("%s is damaged: it has changed since it was written", folder)
    return whole


def _sums(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file of a draft, by its path."""
    names = (str(name) for name in walk_files(folder) if not name.parent.name.startswith("."))
    return {n: fingerprint.digest_stream([(folder / n).read_bytes()]) for n in names if n != _SUMS}


def note_laid(partial: Path, places: Iterable[ChunkPlaces]) -> None:
    """Write bytes and checksum of each file, before any chunk.

    Args:
        partial: the folder of what is begun.
        places: of all its stored arrays.
    """
    laid = with_checksum(other_files(partial, places))
    write_whole(partial / layout.LAID, canonical_json(laid).encode())


def check_laid(partial: Path, places: Iterable[ChunkPlaces]) -> None:
    """Check that the files are as they were laid down; arguments as for `note_laid`.

    Raises:
        EntryError: one is not.
    """
    laid, present = read_object(partial / layout.LAID) or {}, other_files(partial, places)
    odd = [layout.LAID] if fingerprint.is_changed(laid) else []
    laid.pop(fingerprint.CHECKSUM, None)
    odd += [name for name in laid if present.get(name) != laid[name]]
    if odd:
        raise EntryError(
            f"{partial / odd[0]} is damaged: it has changed since it was written. Remove the "
            f"folder with `probekit cache rm {partial}`, and extract again."
        )


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds more than an entry does, whole or not: it is to be removed.

    Raises:
        OptionError: it does, or is a file; a link in it loses nothing.
    """
    if not folder.exists():
        return
    listed = (read_object(folder / layout.MANIFEST) or {}).get("files")
    inside = walk_files(folder) if folder.is_dir() else [PurePosixPath(folder.name)]
    for name in sorted(inside, key=str):
        if not (_is_of_entry(name, listed) or (folder / name).is_symlink()):
            raise OptionError(
                f"{folder} holds {name}, which is not part of an entry. Nothing was removed; move "
                "it away first."
            )


def _is_of_entry(name: PurePosixPath, listed: object) -> bool:
    """Say whether an entry has such a file.

    Args:
        name: its path in the entry's folder.
        listed: what the manifest says of the files but its own and those of chunks alone.
    """
    if any(map(is_workshop, name.parts)) or (isinstance(listed, dict) and str(name) in listed):
        return True
    if name.parts[0] == layout.BACKBONE:  # only a manifest knows, if its maker was not killed
        return not listed
    return _FILES.fullmatch(str(name)) is not None


def recover(entry: Path) -> None:
    """Mend what a kill between the two renames of `install` left; the entry's lock is held.

    Raises:
        OptionError: what is to be removed holds more than an entry does.
    """
    replaced = layout.beside(entry, layout.REPLACED)
    refuse_foreign(replaced)
    refuse_foreign(layout.beside(entry, layout.PARTIAL))
    if replaced.exists() and not entry.exists():
        replaced.rename(entry)
    elif replaced.exists():
        shutil.rmtree(replaced)
