"""What a kill left where an entry is built, and what may lie there."""

import shutil
from pathlib import Path

from probekit.base.replacing import is_left
from probekit.errors import OptionError
from probekit.store.backends import BACKENDS
from probekit.store.layout import (
    BACKBONE,
    BUILDING,
    CHECKSUMS,
    EXAMPLES,
    MANIFEST,
    PARTIAL,
    REPLACED,
    beside,
)

_PARTS = {MANIFEST, EXAMPLES, CHECKSUMS, BACKBONE, BUILDING} | {
    backend.filename for backend in BACKENDS.values()
}
"""What an entry's folder may hold."""


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds more than an entry does, whole or not: it is to be removed.

    Raises:
        OptionError: it does, or is a file; a link in it loses nothing.
    """
    if not folder.exists():
        return
    inside = folder.iterdir() if folder.is_dir() else [folder]
    ours = (one for one in inside if not (one.is_symlink() or is_left(one)))
    names = {one.name.removesuffix(".new") for one in ours}  # a store that a kill left half-made
    if others := sorted(names - _PARTS):
        raise OptionError(
            f"{folder} holds {others[0]}, which is no part of an entry. Nothing was removed; take "
            "it away first."
        )


def recover(entry: Path) -> None:
    """Mend what a kill between the two renames of `install` left; the entry's lock is held.

    Raises:
        OptionError: what is to be removed holds more than an entry does.
    """
    replaced = beside(entry, REPLACED)
    refuse_foreign(replaced)
    refuse_foreign(beside(entry, PARTIAL))
    if replaced.exists() and not entry.exists():
        replaced.rename(entry)
    elif replaced.exists():
        shutil.rmtree(replaced)
