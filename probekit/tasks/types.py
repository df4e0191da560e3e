"""A task: a text set with its label columns, splits and metrics."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from probekit.registry import choose
from probekit.tasks.assemble import assemble
from probekit.tasks.sentences import Source
from probekit.tasks.split import Example, Split

__all__ = ["Example", "Kind", "Metric", "Split", "Task", "slugify"]

Kind = Literal["tagging", "sentence", "pair", "regression", "language-modelling"]
Metric = Literal["span-f1", "accuracy"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A text set with its label columns, splits and metrics.

    Attributes:
        name: as the user types it ("wikiann/de", "data/mine.conll").
        columns: the label columns, the default first; empty for unlabelled text.
        metrics: column to the metric that scores it.
        splits: the names of its splits.
        source: finds and reads one split.
        kind: what is labelled.
        slug: the name as a folder's name.
    """

    name: str
    columns: tuple[str, ...]
    metrics: Mapping[str, Metric]
    splits: tuple[str, ...]
    source: Source
    kind: Kind = "tagging"
    slug: str = ""

    def __post_init__(self) -> None:
        if not self.slug:
            object.__setattr__(self, "slug", slugify(self.name))

    def read(self, split: str, data: Path | None = None) -> Split:
        """Read one split.

        Args:
            split: one of ``splits``.
            data: the folder with the published files; None reads from the Hub (or from where the
                user's own files lie).

        Raises:
            UnknownNameError: there is no such split.
            MissingFileError: the folder or the split's file is not there.
            DataError: the file does not hold what its format promises.
            HubError: no Hub repository gave the data.
            OptionError: the task needs a folder and none was given.
        """
        choose(f"split of {self.name}", split, dict.fromkeys(self.splits))
        spans = [column for column in self.columns if self.metrics[column] == "span-f1"]
        return assemble(self.name, split, self.source(split, data), self.columns, spans)


def slugify(name: str) -> str:
    """Return ``name`` as a file name: ASCII letters, digits, ".", "_" and "-" ("wikiann-de")."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "task"
