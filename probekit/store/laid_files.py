"""What a store's files hold besides chunks: noted when they are laid down, compared at the seal.

Shards write chunks into these files for hours, and `cache verify` compares them with what was
sealed.
"""

from collections.abc import Iterable
from pathlib import Path

from probekit.base.fingerprint import CHECKSUM, canonical_json, is_changed, with_checksum
from probekit.errors import EntryError
from probekit.store.backends import ChunkPlaces
from probekit.store.checksums import other_files
from probekit.store.files import write_whole
from probekit.store.json_types import read_object
from probekit.store.layout import BUILDING, LAID


def note_laid(partial: Path, content: Path, places: Iterable[ChunkPlaces]) -> None:
    """Write bytes and checksum of each file, before any chunk.

    Args:
        partial: the folder of what is begun.
        content: where the store lies.
        places: of all its stored arrays.
    """
    laid = with_checksum(other_files(content, places))
    write_whole(partial / BUILDING / LAID, canonical_json(laid).encode())


def check_laid(partial: Path, content: Path, places: Iterable[ChunkPlaces]) -> None:
    """Check that the files are as they were laid down; arguments as for `note_laid`.

    Raises:
        EntryError: one is not.
    """
    laid, found = read_object(partial / BUILDING / LAID) or {}, other_files(content, places)
    odd = [name for name in laid if name != CHECKSUM and found.get(name) != laid[name]]
    if is_changed(laid):
        odd = [f"{BUILDING}/{LAID}"]
    if odd:
        raise EntryError(
            f"{content / odd[0]} is damaged: it is not as it was written. Remove the folder with "
            f"`probekit cache rm {partial}`, and extract again."
        )
