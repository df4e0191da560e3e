"""Generations: where the files of an entry lie in an object store, which has no rename.

``<entry>/manifest.json`` is the switch: it is the manifest, and names the generation beside it,
``<entry>.<generation>/``, which holds what an entry's folder holds. A new entry is written into a
generation of its own; the one conditional put of the switch makes it the entry, and readers of
another generation keep theirs. ``<entry>.partial/`` holds what is begun, and names its generation.
"""

import json
import re
from typing import Any
from uuid import uuid4

from probekit.errors import EntryLockedError
from probekit.store.json_types import read_object
from probekit.store.objects.bucket import LostPutError, Tag
from probekit.store.objects.object_path import ObjectPath

POINTER = "generation.json"
"""In what is begun: which generation it is."""

_FIELD = "generation"
_GENERATION = re.compile(r"g[0-9a-f]{16}")


def standing_generation(switch: ObjectPath) -> ObjectPath | None:
    """Return the generation that is the entry now; None where none is.

    Args:
        switch: the entry's ``manifest.json``.
    """
    return _named(switch.parent, read_object(switch))


def begun_generation(entry: ObjectPath, partial: ObjectPath) -> ObjectPath | None:
    """Return the generation that is begun; None where none is.

    Args:
        entry: the entry's place.
        partial: that of what is begun.
    """
    return _named(entry, read_object(partial / POINTER))


def begin_generation(entry: ObjectPath, partial: ObjectPath) -> ObjectPath:
    """Begin a new generation of an entry, and return its place."""
    generation = f"g{uuid4().hex[:16]}"
    (partial / POINTER).write_bytes(json.dumps({_FIELD: generation}).encode())
    return entry.with_name(f"{entry.name}.{generation}")


def entry_of(path: ObjectPath) -> ObjectPath | None:
    """Return the entry that a place is a generation of by its name; None where it is none."""
    entry, _dot, generation = path.name.rpartition(".")
    return path.with_name(entry) if entry and _GENERATION.fullmatch(generation) else None


def switch_tag(switch: ObjectPath) -> Tag | None:
    """Return the tag of the switch as it is now; None where there is none."""
    try:
        return switch.bucket.tagged(switch.key)[1]
    except FileNotFoundError:
        return None


def switch_text(manifest: str, generation: ObjectPath) -> str:
    """Return the switch to a generation: its manifest with one line more."""
    line = f'\n "{_FIELD}": {json.dumps(generation.name.rpartition(".")[2])},'
    return f"{manifest[:1]}{line}{manifest[1:]}"


def turn_switch(switch: ObjectPath, generation: ObjectPath, manifest: str, tag: Tag | None) -> None:
    """Make a generation the entry, where the switch is as it was when the generation was begun.

    Args:
        switch: the entry's ``manifest.json``.
        generation: it is whole.
        manifest: the text of its manifest.
        tag: of the switch then; None: there was none.

    Raises:
        EntryLockedError: another process has completed the entry meanwhile.
    """
    data = switch_text(manifest, generation).encode()
    try:
        switch.bucket.put_if(switch.key, data, tag)
    except LostPutError:
        raise EntryLockedError(
            f"{switch.parent} was completed by another process meanwhile, and is left as that one "
            "made it. Read it as it is, or extract again with --overwrite to replace it."
        ) from None


def _named(entry: ObjectPath, told: dict[str, Any] | None) -> ObjectPath | None:
    generation = (told or {}).get(_FIELD)
    if not isinstance(generation, str) or not _GENERATION.fullmatch(generation):
        return None
    return entry.with_name(f"{entry.name}.{generation}")
