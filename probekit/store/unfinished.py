"""What an unfinished entry was being built as."""

import json
from pathlib import Path
from typing import Any

from probekit.store.names import BUILDING, PARTIAL


def unfinished_plan(path: Path) -> dict[str, Any] | None:
    """Return the plan of the unfinished build of an entry, or None if there is none.

    Args:
        path: the entry's final folder.
    """
    file = path.with_name(path.name + PARTIAL) / BUILDING / "plan.json"
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):  # no build, or one torn at its start: it begins afresh
        return None
