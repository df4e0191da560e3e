"""Small files of an object store as files of this machine, for libraries that read nothing else."""

import tempfile
from functools import cache
from pathlib import Path

from probekit.store.objects.object_path import ObjectPath


def local_folder(folder: Path) -> Path:
    """Return a folder as one of this machine's; of an object store, a copy while the process lives.

    What is copied must not change: a generation does not.
    """
    return _copied(folder) if isinstance(folder, ObjectPath) else folder


@cache
def _copied(folder: ObjectPath) -> Path:
    copy = Path(_room().name, f"{len(list(Path(_room().name).iterdir()))}")
    copy.mkdir()
    for name in folder.below():
        there = copy / name
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes((folder / name).read_bytes())
    return copy


@cache
def _room() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="probekit-backbone-")
