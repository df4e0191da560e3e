"""The layout of a cache root, <root>/<model>/<task>/<split>-<key8>, and of an entry's folder."""

import os
import re
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import digest
from probekit.errors import OptionError
from probekit.store.files import plain_path
from probekit.store.json_types import read_object

MANIFEST = "manifest.json"
EXAMPLES = "examples.parquet"
CHECKSUMS = "checksums.parquet"
BACKBONE = "backbone"

PARTIAL = ".partial"  # suffix of an entry under construction
REPLACED = ".replaced"  # suffix of an old entry while its replacement is renamed
LOCK = ".lock"  # suffix of the file that the entry's writer locks
OWNER = ".lock.json"  # suffix of the one that names this writer
BUILDING = "building"  # in an entry under construction: plan and unit marks
PLAN = "plan.json"  # in the latter
UNITS = "units"  # beside it: the marks, a file per finished unit
SHARDS = "shards"  # beside it: the locks of those that build the entry together
LAID = "laid.json"  # beside it: sums of what the store's files hold besides chunks
DRAFT = "draft"  # beside it: what the entry is to hold besides rows, for whoever seals it

LABELS = "labels"  # beside the entries of a task

_KEY_DIGITS = 8
_KEPT = {"request", "arrays", "backend"}
"""What manifests and plans have in common, in every version."""

_ENTRY_NAME = re.compile(rf"(?P<split>.+)-(?P<key8>[0-9a-f]{{{_KEY_DIGITS}}})")


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
    return root / model / task / entry_name(split, key)


def entry_name(split: str, key: str) -> str:
    """Return the name of an entry's folder."""
    return f"{split}-{key[:_KEY_DIGITS]}"


def split_and_key(name: str) -> tuple[str, str] | None:
    """Return split and first digits of the key from an entry's folder name, finished or not."""
    match = _ENTRY_NAME.fullmatch(name.removesuffix(PARTIAL))
    return None if match is None else (match["split"], match["key8"])


def labels_folder(entry: Path) -> Path:
    """Return the folder of the labels that belong to an entry's task."""
    return entry.parent / LABELS


def beside(entry: Path, suffix: str) -> Path:
    """Return what lies beside an entry's folder, under its name and a suffix."""
    # ``.`` and ``..`` have no name of their own
    named = plain_path(entry) if entry.name in ("", "..") else entry
    return named.with_name(named.name + suffix)


def shards_folder(entry: Path) -> Path:
    """Return where shards that build an entry together hold their locks.

    Args:
        entry: its final folder.
    """
    return beside(entry, PARTIAL) / BUILDING / SHARDS


def remains(entry: Path) -> bool:
    """Say whether anything is left of an entry: itself, what is begun, or what it replaces."""
    return any(beside(entry, suffix).exists() for suffix in ("", PARTIAL, REPLACED))


def standing(path: Path) -> Path:
    """Return where an entry is read: its folder, or the old one's between two renames."""
    replaced = beside(path, REPLACED)
    return replaced if not path.exists() and replaced.is_dir() else path


def asked_of(folder: Path) -> dict[str, Any]:
    """Return the request of an entry, whole or unfinished; empty where its name tells of none."""
    files = folder / MANIFEST, folder / BUILDING / PLAN
    return next((_asked_in(file) for file in files if proven_key(file, folder)), {})


def limit_of(folder: Path) -> int | None:
    """Return N where an entry, whole or unfinished, holds only its split's first N examples."""
    extra = (read_object(folder / MANIFEST) or {}).get("extra")
    said = extra if isinstance(extra, dict) else read_object(folder / BUILDING / PLAN) or {}
    limit = said.get("limit")
    return limit if isinstance(limit, int) else None


def _asked_in(file: Path) -> dict[str, Any]:
    request = (read_object(file) or {}).get("request")
    return request if isinstance(request, dict) else {}


def proven_key(file: Path, folder: Path) -> str:
    """Return the key of the entry that a folder is, as its manifest or plan proves.

    Args:
        file: the manifest or the plan; it may be anybody's.
        folder: the entry's folder, finished, unfinished or about to be replaced.

    Returns:
        64 hex digits; none where what was asked for does not give the key in the folder's name.
    """
    named = split_and_key(folder.name.removesuffix(REPLACED))
    if named is None or not (read_object(file) or {}).keys() >= _KEPT:
        return ""
    try:
        key = digest(_asked_in(file))
    except (ValueError, RecursionError):  # JSON that cannot be written again
        return ""
    return key if key.startswith(named[1]) else ""
