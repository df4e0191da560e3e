"""Where features and labels lie: nothing in it changes what a run computes."""

from dataclasses import dataclass
from pathlib import Path

from probekit.tasks import Task, get_task

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
        skip_unlabelled: leave out its texts without a label (``--skip-unlabelled``).
    """

    cache: str | Path = DEFAULT_CACHE
    entry: str | None = None
    data: str | Path | None = None
    kind: str | None = None
    text: str | None = None
    skip_unlabelled: bool = False

    @property
    def typed(self) -> list[str]:
        """The options that say what the user's own data is, as they are typed."""
        given = {"--kind": self.kind, "--text": self.text}
        words = [word for name, value in given.items() if value for word in (name, value)]
        return [*words, *["--skip-unlabelled"] * self.skip_unlabelled]

    def task(self, name: str, label: str | None = None) -> Task:
        """Return the task called ``name``, or the user's own data as these options read it."""
        return get_task(
            name,
            kind=self.kind,
            text=self.text,
            label=label,
            skip_unlabelled=self.skip_unlabelled,
        )

    @property
    def root(self) -> Path:
        """The cache, as a path."""
        return Path(self.cache)
