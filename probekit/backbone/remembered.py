"""The identity of a model on this disk, remembered: its weights are hashed once, not per command.

What is remembered holds for files of the same size, times and inodes, and for the same versions of
the libraries that read them. It lies in the user's cache folder (``XDG_CACHE_HOME``), never beside
the model.
"""

import json
import logging
import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from probekit import backbone
from probekit.backbone.checkpoint import local_path
from probekit.base.fingerprint import digest
from probekit.base.notices import warn_once
from probekit.base.replacing import replacing
from probekit.errors import BackboneError
from probekit.store.json_types import read_object

_LIBRARIES = ("probekit", "transformers", "tokenizers")
_SETTLED = 0.1
"""Seconds after which a file's next change is sure to show in its times."""

logger = logging.getLogger(__name__)


def identity_at(model: str) -> dict[str, Any] | None:
    """Return the identity of the model at a path, or of a Hub id as it was extracted last.

    None where neither is known. A folder that holds no usable model any more (its weights were
    removed) has none, which is said.

    Args:
        model: the model as the user names it.

    Returns:
        the fields of `Identity`.
    """
    path = local_path(model)
    if path is not None and not (path.is_file() or (path / "config.json").is_file()):
        return None
    if (identity := read_object(_memory(model)[0])) is not None or path is None:
        return identity
    from probekit.backbone.saved_run import SavedRun  # with torch

    try:
        if (run := SavedRun.at(model)) is not None:
            return run.identity()
        part = backbone.part_to_name(model)
        return inspect_and_remember(model, part=part).info.identity.to_json()
    except BackboneError as error:
        warn_once(logger, "%s Looking for entries that were extracted from it.", error)
        return None


def inspect_and_remember(
    model: str,
    *,
    revision: str | None = None,
    random_init: int | None = None,
    part: str | None = None,
    quantize: str | None = None,
    trust_remote_code: bool = False,
) -> "backbone.Inspection":
    """Inspect a model (see ``inspect_backbone``), and remember what it is.

    Of a Hub repository it is remembered as what the id stands for, until the next inspection.

    Raises:
        ProbekitError: as ``inspect_backbone``.
    """
    memory, changed = _memory(model)
    inspection = backbone.inspect_backbone(
        model,
        revision=revision,
        random_init=random_init,
        part=part,
        quantize=quantize,
        trust_remote_code=trust_remote_code,
    )
    plain = random_init is None and quantize is None and inspection.tuned is None
    if plain and time.time() - changed > _SETTLED:
        try:
            with replacing(memory) as fresh:
                fresh.write_text(json.dumps(inspection.info.identity.to_json()), "utf-8")
        except OSError as error:  # nothing is lost but time
            logger.debug("%s: not remembered (%s)", memory, error)
    return inspection


def _memory(model: str) -> tuple[Path, float]:
    """Return where the identity of a model is remembered, and when its files changed last.

    Files are known by what they look like, a Hub id by its name.
    """
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(home).expanduser() / "probekit" / "identities"
    if (path := local_path(model)) is None:
        return folder / f"{digest(['hub', model])}.json", 0.0
    path = path.resolve()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stats = [(file.name, file.stat()) for file in files if file.is_file()]
    looks = [
        [name, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
        for name, stat in stats
    ]
    versions = [version(library) for library in _LIBRARIES]
    changed = max((stat.st_ctime for _, stat in stats), default=0.0)
    return folder / f"{digest([str(path), looks, versions])}.json", changed
