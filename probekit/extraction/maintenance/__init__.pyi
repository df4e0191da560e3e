from .chosen_entries import select_folders
from .entries import LEFT_OVER, check_chunks, describe, list_cache
from .reduction import Reduction
from .removal import Removable, Stale, find_stale, remove_stale
from .row_errors import TAIL, RowErrors, verify_against, verify_rows

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
