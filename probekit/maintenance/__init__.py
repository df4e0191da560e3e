"""Cache maintenance: list, describe, verify and remove entries."""

from probekit.maintenance.entries import (
    check_chunks,
    describe,
    list_cache,
    remove,
    select_folders,
)
from probekit.maintenance.rows import TAIL, RowErrors, verify_against, verify_rows

__all__ = [
    "TAIL",
    "RowErrors",
    "check_chunks",
    "describe",
    "list_cache",
    "remove",
    "select_folders",
    "verify_against",
    "verify_rows",
]
