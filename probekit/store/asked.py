"""What an entry's folder was asked for, read without trust: it may be anybody's folder."""

import json
from pathlib import Path
from typing import Any

from probekit.fingerprint import digest
from probekit.store.names import BUILDING, MANIFEST, PLAN


def asked_in(file: Path) -> dict[str, Any]:
    """Return the request that a manifest or a plan holds; empty where the file is neither."""
    try:
        values = json.loads(file.read_text("utf-8"))
        request = values.get("request") if isinstance(values, dict) else None
    except (OSError, ValueError, RecursionError):
        return {}
    return request if isinstance(request, dict) else {}


def asked_of(folder: Path) -> dict[str, Any]:
    """Return the request of an entry, whole or unfinished; empty where a folder is none."""
    return asked_in(folder / MANIFEST) or asked_in(folder / BUILDING / PLAN)


def asked_key(file: Path) -> str:
    """Return the key of what a manifest or a plan says was asked for; none where it is neither."""
    request = asked_in(file)
    try:
        return digest(request) if request else ""
    except (ValueError, RecursionError):  # JSON that cannot be written again
        return ""
