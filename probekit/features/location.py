"""Where features and labels lie: nothing in it changes what a run computes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probekit.tasks import Task, TextOptions, get_task

DEFAULT_CACHE = Path("cache")


@dataclass(frozen=True, kw_only=True)
class Location(TextOptions):
    """Where the entries of a model and task are, where to read labels, and how the user's own are.

    Attributes:
        cache: root of the feature cache.
        entry: chooses among several matching entries (key, folder name or path).
        data: folder to read labels from afresh; ``None`` takes the newest beside the entry.
        identity: identity of the model, where an entry's path stands in its place; ``None`` is
            that of the model at the path that is given as such, if one lies there.
    """

    cache: str | Path = DEFAULT_CACHE
    entry: str | None = None
    data: str | Path | None = None
    identity: Mapping[str, Any] | None = field(default=None, hash=False)

    def task(self, name: str, label: str | None = None) -> Task:
        """Return the task called ``name``, or the user's own data as these options read it."""
        return get_task(name, self, label)

    @property
    def root(self) -> Path:
        """The cache, as a path."""
        return Path(self.cache)
