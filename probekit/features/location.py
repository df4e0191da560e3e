"""Where features and labels lie: nothing in it changes what a run computes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_CACHE = Path("cache")


@dataclass(frozen=True, kw_only=True)
class Location:
    """Where the entries of a model and task are, and where to read labels.

    Attributes:
        cache: root of the feature cache.
        entry: chooses among several matching entries (key, folder name or path).
        data: folder to read labels from afresh; ``None`` takes the newest beside the entry.
        kind: kind of the user's own data (``--kind``).
        text: text column of the user's own data (``--text``).
        identity: identity of the model, where an entry's path stands in its place; ``None`` is
            that of the model at the path that is given as such, if one lies there.
    """

    cache: str | Path = DEFAULT_CACHE
    entry: str | None = None
    data: str | Path | None = None
    kind: str | None = None
    text: str | None = None
    identity: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def typed(self) -> list[str]:
        """The options that say what the user's own data is, as they are typed."""
        given = {"--kind": self.kind, "--text": self.text}
        return [word for name, value in given.items() if value for word in (name, value)]

    @property
    def root(self) -> Path:
        """The cache, as a path."""
        return Path(self.cache)
