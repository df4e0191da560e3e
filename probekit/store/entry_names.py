"""The names of the files and folders of an entry."""

import os
import re
from pathlib import Path

MANIFEST = "manifest.json"
EXAMPLES = "examples.parquet"
CHECKSUMS = "checksums.parquet"
BACKBONE = "backbone"

PARTIAL = ".partial"  # suffix of an entry under construction
REPLACED = ".replaced"  # suffix of an old entry while its replacement is renamed
LOCK = ".lock"  # suffix of the file that the entry's writer locks
OWNER = ".lock.json"  # suffix of the one that names this writer
BUILDING = "building"  # in an entry under construction: plan and unit marks
PLAN = "plan.json"  # in the latter
UNITS = "units"  # beside it: the marks, a file per finished unit

LABELS = "labels"  # beside the entries of a task


# control characters, half pairs of UTF-16, separators
_UNNAMEABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff/\\]")


def is_name(value: object) -> bool:
    """Say whether a value can name one file or folder, and no other place."""
    return (
        isinstance(value, str)
        and value not in ("", ".", "..")
        and not _UNNAMEABLE.search(value)
        and len(value.encode()) <= 255
    )


def beside(entry: Path, suffix: str) -> Path:
    """Return what lies beside an entry's folder, under its name and a suffix."""
    # ``.`` and ``..`` have no name of their own
    named = Path(os.path.abspath(entry)) if entry.name in ("", "..") else entry
    return named.with_name(named.name + suffix)


def remains(entry: Path) -> bool:
    """Say whether anything is left of an entry: itself, what is begun, or what it replaces."""
    return any(beside(entry, suffix).exists() for suffix in ("", PARTIAL, REPLACED))
