"""Where an entry is built: checksums of what is laid down besides chunks, and what a kill left.

What is laid down is compared at the seal: shards write chunks into these files for hours, and
`cache verify` compares them with what was sealed.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from probekit.base.fingerprint import CHECKSUM, canonical_json, is_changed, with_checksum
from probekit.base.replacing import is_left
from probekit.errors import EntryError, OptionError
from probekit.store.backends import BACKENDS, ChunkPlaces
from probekit.store.checksums import other_files
from probekit.store.files import write_whole
from probekit.store.json_types import read_object
from probekit.store.layout import (
    BACKBONE,
    BUILDING,
    CHECKSUMS,
    EXAMPLES,
    LAID,
    MANIFEST,
    PARTIAL,
    REPLACED,
    beside,
)


def note_laid(partial: Path, places: Iterable[ChunkPlaces]) -> None:
    """Write bytes and checksum of each file, before any chunk.

    Args:
        partial: the folder of what is begun.
        places: of all its stored arrays.
    """
    laid = with_checksum(other_files(partial, places))
    write_whole(partial / BUILDING / LAID, canonical_json(laid).encode())


def check_laid(partial: Path, places: Iterable[ChunkPlaces]) -> None:
    """Check that the files are as they were laid down; arguments as for `note_laid`.

    Raises:
        EntryError: one is not.
    """
    laid, found = read_object(partial / BUILDING / LAID) or {}, other_files(partial, places)
    odd = [name for name in laid if name != CHECKSUM and found.get(name) != laid[name]]
    if is_changed(laid):
        odd = [f"{BUILDING}/{LAID}"]
    if odd:
        raise EntryError(
            f"{partial / odd[0]} is damaged: it is not as it was written. Remove the folder with "
            f"`probekit cache rm {partial}`, and extract again."
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
