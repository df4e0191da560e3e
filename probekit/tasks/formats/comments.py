"""Comments in files of words in columns, a format that has none: ``# sent_id = 7``.

A ``#`` may as well be a word, and a hashtag begins with one. So a comment is a line that begins a
sentence with ``# `` and is no row: it has another number of cells than rows have, or a label that
no row has. (``#begin document`` is one by its number of cells alone, since ``#tag O`` is a row.)
"""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from probekit.base.notices import warn_once

logger = logging.getLogger(__name__)

_REMARK = re.compile(r"#\S* ")


def is_remark(line: str) -> bool:
    """Return whether a line may be a comment, by its beginning."""
    return _REMARK.match(line) is not None


def drop_comments(
    path: Path, lines: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[Sequence[str]]:
    """Return the rows of a file, those that are comments without cells; how many is said.

    Args:
        path: the file, for the message.
        lines: its lines, or their first cells.
        rows: the cells of each; none for a line that divides sentences.
    """
    found, dropped = list(rows), []
    doubtful = {n for n, line in enumerate(lines) if is_remark(line) and _begins(lines, rows, n)}
    sure = [row for n, row in enumerate(rows) if row and n not in doubtful]
    if not (doubtful and sure):
        return found
    width = Counter(map(len, sure)).most_common(1)[0][0]
    labels = {row[-1] for row in sure} | {"#"}
    for n in sorted(doubtful):
        begins = n == 0 or not found[n - 1]
        unknown = lines[n].startswith("# ") and rows[n][-1] not in labels
        if begins and (len(rows[n]) != width or (unknown and width > 1)):
            found[n] = ()
            dropped.append(n)
    if dropped:
        warn_once(
            logger,
            "%s: %d lines that begin a sentence with # are read as comments (line %d: %r).",
            path,
            len(dropped),
            dropped[0] + 1,
            lines[dropped[0]],
        )
    return found


def _begins(lines: Sequence[str], rows: Sequence[Sequence[str]], n: int) -> bool:
    """Return whether nothing but remarks stands between a line and the end of the last sentence."""
    while n and rows[n - 1] and is_remark(lines[n - 1]):
        n -= 1
    return not n or not rows[n - 1]
