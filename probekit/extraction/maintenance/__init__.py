"""Cache maintenance: list, describe, verify, reduce and remove entries."""

from probekit.extraction.maintenance.chosen_entries import select_folders
from probekit.extraction.maintenance.entries import (
    LEFT_OVER,
    check_chunks,
    describe,
    list_cache,
)
from probekit.extraction.maintenance.reduction import Reduction
from probekit.extraction.maintenance.removal import Removable
from probekit.extraction.maintenance.row_errors import TAIL, RowErrors, verify_against, verify_rows
from probekit.extraction.maintenance.stale import Stale, find_stale, remove_stale

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
