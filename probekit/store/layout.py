"""The layout of a cache root: <root>/<model>/<task>/<split>-<key8>."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from probekit.errors import OptionError
from probekit.store.entry_names import LABELS, MANIFEST, PARTIAL, REPLACED
from probekit.store.files import disk_bytes, read_object
from probekit.store.replacing import standing
from probekit.store.unfinished import asked_key

_KEY_DIGITS = 8
_KEPT = {"request", "arrays", "backend"}
"""What manifests and plans have in common, in every version."""

_ENTRY_NAME = re.compile(rf"(?P<split>.+)-(?P<key8>[0-9a-f]{{{_KEY_DIGITS}}})")


@dataclass(frozen=True, slots=True)
class EntryFolder:
    """One entry, complete or not, as the folder names tell it.

    Attributes:
        path: the folder; with ``.partial`` if the entry is unfinished.
        model: the model's slug.
        task: the task's slug.
        split: the split's name.
        key8: first eight digits of the key.
        complete: whether a reader will accept it.
    """

    path: Path
    model: str
    task: str
    split: str
    key8: str
    complete: bool

    @property
    def nbytes(self) -> int:
        """Bytes its files take on the disk, less what a sparse file leaves out."""
        return disk_bytes(standing(self.path))


def model_slug(model: str) -> str:
    """Return the folder name of a model.

    A path gives its last part (without ``.gguf``), a Hub id ``org/name`` gives ``org--name``.

    Raises:
        OptionError: nothing is left that can name a folder.
    """
    slashes = model.rstrip("/").count("/")
    is_path = model.endswith(".gguf") or slashes > 1 or model.startswith(("/", ".", "~"))
    if is_path or Path(model).exists():
        # Not `resolve`: a link is named as its user named it.
        name = Path(os.path.abspath(Path(model).expanduser())).name.removesuffix(".gguf")
    else:
        name = model.replace("/", "--")
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    if not slug:
        raise OptionError(f"cannot make a folder name of the model {model!r}.")
    return slug


def entry_folder(root: Path, model: str, task: str, split: str, key: str) -> Path:
    """Return where an entry lies.

    Args:
        root: the cache root.
        model: the model's slug (`model_slug`).
        task: the task's slug.
        split: the split's name.
        key: the entry's key, 64 hex digits.
    """
    return root / model / task / _entry_name(split, key)


def beside_entry(entry: Path, key: str) -> Path:
    """Return where another entry of the same model, task and split lies.

    Args:
        entry: the folder of the one.
        key: the key of the other.
    """
    named = split_and_key(entry.name)
    split = entry.name if named is None else named[0]
    return entry.with_name(_entry_name(split, key))


def _entry_name(split: str, key: str) -> str:
    return f"{split}-{key[:_KEY_DIGITS]}"


def split_and_key(name: str) -> tuple[str, str] | None:
    """Return split and first digits of the key from an entry's folder name, finished or not."""
    found = _ENTRY_NAME.fullmatch(name.removesuffix(PARTIAL))
    return None if found is None else (found["split"], found["key8"])


def proven_key(file: Path, folder: Path) -> str:
    """Return the key of the entry that a folder is, as its manifest or plan proves.

    Args:
        file: the manifest or the plan; it may be anybody's.
        folder: the entry's folder, finished or not.

    Returns:
        64 hex digits; none where what was asked for does not give the key in the folder's name.
    """
    named, key = split_and_key(folder.name), asked_key(file)
    if not (read_object(file) or {}).keys() >= _KEPT:
        return ""
    return key if named is not None and key.startswith(named[1]) else ""


def labels_folder(entry: Path) -> Path:
    """Return the folder of the labels that belong to an entry's task."""
    return entry.parent / LABELS


def list_entries(root: Path) -> list[EntryFolder]:
    """Return all entries under a cache root, complete and unfinished, sorted by path."""
    return sorted(_scan(root), key=lambda entry: entry.path)


def folder_of_key(root: Path, split: str, key: str, task: str | None = None) -> Path | None:
    """Return the folder of the complete entry of a key, wherever it lies in the cache, if any.

    Args:
        root: the cache root.
        split: the split's name.
        key: 64 hex digits.
        task: the task's slug; None is any.
    """
    name = _entry_name(split, key)
    for folder in list_entries(root):
        if task not in (None, folder.task):
            continue
        if folder.path.name == name and proven_key(folder.path / MANIFEST, folder.path) == key:
            return folder.path
    return None


def _scan(root: Path) -> Iterator[EntryFolder]:
    for found in root.glob("*/*/*"):
        # An old entry is one where its replacement has not come.
        path = found.with_name(found.name.removesuffix(REPLACED))
        name = split_and_key(path.name)
        if name is None or found != standing(path) or not found.is_dir():
            continue
        if path.parent.name == LABELS:
            continue
        yield EntryFolder(
            path=path,
            model=path.parent.parent.name,
            task=path.parent.name,
            split=name[0],
            key8=name[1],
            complete=not path.name.endswith(PARTIAL) and (found / MANIFEST).is_file(),
        )
