"""How many rows and bytes an extraction writes, how long it takes, and whether the disk holds it."""

import shutil
from pathlib import Path

from probekit.errors import StorageError
from probekit.quantities import human_bytes


def check_free_space(folder: Path, needed: int) -> None:
    """Refuse to start when the disk cannot hold the entry.

    Args:
        folder: where the entry will be built; parents that do not exist yet are skipped.
        needed: bytes still to be written.

    Raises:
        StorageError: fewer than ``needed`` bytes are free.
    """
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise StorageError(
            f"{existing} has {human_bytes(free)} free, and this extraction writes "
            f"{human_bytes(needed)}. Free some space, choose another --cache, or store less: "
            "--dtype int8 halves it, --layers and --limit narrow it."
        )
