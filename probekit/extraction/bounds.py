"""How large a unit may grow, and how few rows a chunk then holds."""

import math
from collections.abc import Mapping

import numpy as np

from probekit.base.kinds import POOLED

UNIT_BYTES = 192 * 2**20
"""What one unit holds in memory at two bytes per value (so twice this where rows are gathered in
float32, see ``extraction/plan.py``); a second one is with the writer. A larger unit has more
windows of similar length, so its batches are larger, with less padding.
"""

UNIT_TOKENS = 2**17
"""What one unit of running texts reads, about: a kill costs no more than its minutes."""

_ROOM = 3  # rows of another array that a unit has room for beside each word
_FEWEST = 16
_MOST_ROW_CHUNKS = 4096
_PER_UNIT = 4  # chunks of a unit at least, so that little of the last one stays unused


def pooled_chunk_rows(
    chunk_rows: Mapping[str, int],
    rows: Mapping[str, np.ndarray],
    row_bytes: Mapping[str, float],
    tokens: int,
) -> dict[str, int]:
    """Return smaller chunks for the arrays with one row per text, where a text is much work.

    Units fill whole chunks, so a chunk should hold no more texts than one unit does.

    Args:
        chunk_rows: per array, the rows of a chunk by its bytes alone.
        rows: per array, the rows of each example.
        row_bytes: per array, the bytes of a row over all its layers.
        tokens: subwords of all examples.
    """
    pooled = [name for name in rows if name in POOLED]
    if not pooled:
        return {}
    texts = max(len(rows[pooled[0]]), 1)
    size = sum(row_bytes[name] * int(rows[name].sum()) for name in rows) / texts
    per_unit = min(UNIT_BYTES / max(size, 1), UNIT_TOKENS * texts / max(tokens, 1))
    if "words" in rows:  # whose chunks set the pace: several small ones fit a unit better
        per_unit /= 2
    fitting = 2 ** round(math.log2(max(per_unit, _FEWEST)))
    return {name: min(chunk_rows[name], fitting) for name in pooled}


def grown_chunk_rows(
    chunk_rows: Mapping[str, int],
    rows: Mapping[str, np.ndarray],
    row_bytes: Mapping[str, float],
) -> dict[str, int]:
    """Return larger chunks for arrays that would have very many, as far as units hold several.

    Each is a map for whoever reads the array, and a process has so many.

    Args:
        chunk_rows: per array, the rows of a chunk.
        rows: per array, the rows of each example.
        row_bytes: per array, the bytes of a row over all its layers.
    """
    total = {name: int(rows[name].sum()) for name in rows}
    units = max(sum(row_bytes[name] * total[name] for name in rows) / UNIT_BYTES, 1)
    grown = dict(chunk_rows)
    for name in rows:
        most = total[name] / (_PER_UNIT * units)
        while total[name] > _MOST_ROW_CHUNKS * grown[name] and 2 * grown[name] <= most:
            grown[name] *= 2
    return grown


def max_chunks(
    chunk_rows: Mapping[str, int],
    rows: Mapping[str, np.ndarray],
    row_bytes: Mapping[str, float],
) -> dict[str, int]:
    """Bound a unit by the bytes of its leading array; leave the others room for as much text.

    Args:
        chunk_rows: per array, the rows of a chunk.
        rows: per array, the rows of each example.
        row_bytes: per array, the bytes of a row over all its layers.
    """
    wide = [name for name in rows if name != "tokens"]
    leading = wide[0] if wide else "tokens"
    total = {name: max(int(rows[name].sum()), 1) for name in rows}
    beside = sum(row_bytes[name] * total[name] for name in wide if name != leading)
    size = chunk_rows[leading] * (row_bytes[leading] + beside / total[leading])
    chunks = max(1, round(UNIT_BYTES / size))
    count = chunks * chunk_rows[leading]
    room = {
        name: _ROOM if leading == "words" else 2 * total[name] / total[leading] for name in rows
    }
    others = {name: 1 + int(room[name] * count) // chunk_rows[name] for name in rows}
    return others | {leading: chunks}
