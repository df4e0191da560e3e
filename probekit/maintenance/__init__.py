"""Cache maintenance: list, describe, verify and remove entries."""

from probekit.maintenance.entries import (
    check_chunks,
    describe,
    list_cache,
    select_folders,
)
from probekit.maintenance.removal import Removable
from probekit.maintenance.rows import TAIL, RowErrors, verify_against, verify_rows

__all__ = [
    "TAIL",
    "Removable",
    "RowErrors",
    "check_chunks",
    "describe",
    "list_cache",
    "select_folders",
    "verify_against",
    "verify_rows",
]
