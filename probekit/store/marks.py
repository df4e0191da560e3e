"""Unit marks: which units of an unfinished entry are whole, with checksums and statistics.

A mark is written, by rename, after all chunks of its unit are on the disk. What a killed run leaves
without a mark is written again; what it leaves with one is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import canonical_json
from probekit.store.files import read_object, write_whole


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
        text = canonical_json({"unit": self.unit, "chunks": chunks, "stats": dict(self.stats)})
        write_whole(folder / f"{self.unit:06d}.json", text.encode())


def read_marks(folder: Path) -> dict[int, UnitMark]:
    """Return the marks of a folder by unit; a file that is not a mark counts as none."""
    marks = {}
    for file in sorted(folder.glob("*.json")):
        found = read_object(file) or {}
        try:
            chunks = tuple(ChunkSum(*chunk) for chunk in found["chunks"])
            mark = UnitMark(int(found["unit"]), chunks, found["stats"])
        except (ValueError, KeyError, TypeError):
            continue
        marks[mark.unit] = mark
    return marks
