"""Cache maintenance: list, describe, verify, reduce and remove entries."""

from probekit.maintenance.entries import (
    LEFT_OVER,
    check_chunks,
    describe,
    list_cache,
)
from probekit.maintenance.reduction import Reduction
from probekit.maintenance.removal import Removable
from probekit.maintenance.rows import TAIL, RowErrors, verify_against, verify_rows
from probekit.maintenance.selection import select_folders
from probekit.maintenance.stale import Stale, find_stale, remove_stale

__all__ = [
    "LEFT_OVER",
    "TAIL",
    "Reduction",
    "Removable",
    "RowErrors",
    "Stale",
    "check_chunks",
    "describe",
    "find_stale",
    "list_cache",
    "remove_stale",
    "select_folders",
    "verify_against",
    "verify_rows",
]
