"""Unfinished entries: their plan, and marks of the units that are whole.

A mark is written, by rename, after all chunks of its unit are on the disk. What a killed run leaves
without a mark is written again; what it leaves with one is kept. All is read without trust: it may
be anybody's folder.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from probekit.base.fingerprint import canonical_json, digest, is_changed, with_checksum
from probekit.errors import EntryError
from probekit.store.arrays import ArraySpec
from probekit.store.files import write_whole
from probekit.store.json_types import read_object
from probekit.store.layout import BUILDING, PARTIAL, PLAN, UNITS, beside

_READERS = 8  # of marks, each of which may be a request

_SHORT = 80
"""Characters of two values that a message shows."""

_LAID_OUT = ("arrays", "units")
"""What a plan makes of its other values."""

checksum = xxhash.xxh3_128_hexdigest
"""The 128 bits of XXH3 (32 hex digits) over the bytes of a chunk.

It finds damage, not forgery, and takes a small part of the time of sha256, so that writing and
verifying go as fast as the disk (``benchmarks/chunk_writing.py``).
"""


@dataclass(frozen=True, slots=True)
class ChunkSum:
    """The checksum of one stored chunk.

    Attributes:
        array: name of the plain array.
        row_chunk: number along the rows.
        layer_index: position along the layers.
        nbytes: bytes of the chunk.
        xxh128: checksum of these bytes (`checksums.checksum`).
    """

    array: str
    row_chunk: int
    layer_index: int
    nbytes: int
    xxh128: str


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
        objects = list(pool.map(read_object, sorted(folder.glob("*.json"))))
    for found in (one or {} for one in objects):
        if is_changed(found):
            continue  # its unit is written again
        try:
            chunks = tuple(ChunkSum(*chunk) for chunk in found["chunks"])
            mark = UnitMark(int(found["unit"]), chunks, found["stats"])
        except (ValueError, KeyError, TypeError):
            continue
        marks[mark.unit] = mark
    return marks


def unfinished_units(path: Path) -> frozenset[int]:
    """Return the units that the unfinished build of an entry has finished.

    Args:
        path: the entry's final folder.
    """
    return frozenset(read_marks(beside(path, PARTIAL) / BUILDING / UNITS))


def unfinished_plan(path: Path) -> dict[str, Any] | None:
    """Return the plan of the unfinished build of an entry, or None if there is none.

    Args:
        path: the entry's final folder.
    """
    plan = read_object(beside(path, PARTIAL) / BUILDING / PLAN) or {}
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
            f"{finished}, of `probekit {made_by:.20}`. Run that command again to go on with it, or "
            "give --restart to throw them away."
        )
    raise EntryError(
        f"{finished}, of another extraction: {'; '.join(plan_differences(begun, plan))}. Give the "
        "options of that one to go on with it, or --restart to throw them away."
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
    one, other = ({**found.get("request", {}), **found} for found in (begun, plan))
    names = [name for name, value in other.items() if one.get(name) != value]
    said = [
        f"{name} {one.get(name)}{between} {other[name]}"
        for name in names
        if name not in _LAID_OUT and len(f"{one.get(name)}{other[name]}") <= _SHORT
    ]
    return said or [f"other {name}" for name in names if name != "request"]
