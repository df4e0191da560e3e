"""What an unfinished entry was being built as, and how much of it there is."""

import json
from pathlib import Path
from typing import Any

from probekit.store.arrays import ArraySpec
from probekit.store.files import disk_bytes
from probekit.store.marks import read_marks
from probekit.store.names import BUILDING, PARTIAL, PLAN, UNITS, beside


def unfinished_bytes(path: Path) -> int:
    """Return the bytes on the disk of the unfinished build of an entry, 0 if there is none.

    They are there already when the build is resumed, and given back when it begins afresh.

    Args:
        path: the entry's final folder.
    """
    return disk_bytes(beside(path, PARTIAL))


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
    file = beside(path, PARTIAL) / BUILDING / PLAN
    try:
        plan = json.loads(file.read_text("utf-8"))
        return plan if plan["arrays"] and all(map(ArraySpec.from_json, plan["arrays"])) else None
    # no build, or one torn at its start: it begins afresh
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
