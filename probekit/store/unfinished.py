"""What an entry was asked for, whole or unfinished, and how much there is of an unfinished one.

All is read without trust: it may be anybody's folder.
"""

from pathlib import Path
from typing import Any

from probekit.base.fingerprint import digest
from probekit.errors import EntryError
from probekit.store.arrays import ArraySpec
from probekit.store.entry_names import BUILDING, MANIFEST, PARTIAL, PLAN, UNITS, beside
from probekit.store.files import disk_bytes, read_object
from probekit.store.marks import read_marks


def asked_of(folder: Path) -> dict[str, Any]:
    """Return the request of an entry, whole or unfinished; empty where a folder is none."""
    return _asked_in(folder / MANIFEST) or _asked_in(folder / BUILDING / PLAN)


def limit_of(folder: Path) -> int | None:
    """Return N where an entry, whole or unfinished, holds only its split's first N examples."""
    extra = (read_object(folder / MANIFEST) or {}).get("extra")
    found = extra if isinstance(extra, dict) else read_object(folder / BUILDING / PLAN) or {}
    limit = found.get("limit")
    return limit if isinstance(limit, int) else None


def asked_key(file: Path) -> str:
    """Return the key of what a manifest or a plan says was asked for; none where it is neither."""
    request = _asked_in(file)
    try:
        return digest(request) if request else ""
    except (ValueError, RecursionError):  # JSON that cannot be written again
        return ""


def _asked_in(file: Path) -> dict[str, Any]:
    request = (read_object(file) or {}).get("request")
    return request if isinstance(request, dict) else {}


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
    plan = read_object(beside(path, PARTIAL) / BUILDING / PLAN) or {}
    try:
        return plan if plan["arrays"] and all(map(ArraySpec.from_json, plan["arrays"])) else None
    except (EntryError, KeyError, TypeError):  # no build, or one torn at its start: begin afresh
        return None
