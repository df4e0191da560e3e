"""The published files of a task: where each split lies in the user's folder, and their tables."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.base.kinds import KindName
from probekit.errors import DataError, MissingFileError, OptionError
from probekit.tasks.formats.text_lines import read_lines, tab_cells
from probekit.tasks.hub_repository import HubRepository, read_hub
from probekit.tasks.sentences import Sentences
from probekit.tasks.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Published:
    """A task's corpus: published files in a folder, or the Hub when no folder is given.

    Attributes:
        task: the task's name.
        files: split to the file names that are tried in this order.
        parse: reads one file (or, for formats of parallel files, one folder).
        obtain: where the files come from, for the message when no Hub repository is known.
        folders: sub-folders that are tried after the folder itself ("de").
        hub: Hub repositories in the order in which they are tried.
    """

    task: str
    files: Mapping[str, Sequence[str]]
    parse: Callable[[Path], Sentences]
    obtain: str
    folders: Sequence[str] = ()
    hub: Sequence[HubRepository] = ()

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read ``split`` from ``data``, or from the Hub."""
        if data is not None:
            return self.parse(find_file(self.task, split, data, self.files[split], self.folders))
        if not self.hub:
            raise OptionError(
                f"{self.task} needs --data DIR: no Hub repository is known to hold it. Get the "
                f"files from {self.obtain}."
            )
        return read_hub(self.task, split, self.hub)

    def labelled(
        self,
        metrics: Mapping[str, str],
        kind: KindName = "tagging",
        kinds: Mapping[str, KindName] | None = None,
    ) -> Task:
        """Return the task whose corpus this is; arguments as for ``Task``."""
        return Task(
            name=self.task,
            metrics=metrics,
            splits=tuple(self.files),
            kind=kind,
            kinds=kinds or {},
            corpus=self,
        )


@dataclass(frozen=True, kw_only=True)
class SplitsTogether(Published):
    """A corpus whose files hold several splits each; ``parse(path, split)`` reads one of them.

    There is no Hub repository.
    """

    parse: Callable[..., Sentences]

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read ``split`` from ``data``."""
        if data is None:
            return super().__call__(split, None)
        path = find_file(self.task, split, data, self.files[split], self.folders)
        return self.parse(path, split)


def find_file(
    task: str, split: str, data: Path, names: Sequence[str], folders: Sequence[str] = ()
) -> Path:
    """Return the first of ``names`` that exists in ``data`` or in its sub-folders.

    Raises:
        MissingFileError: the folder, or all of the names, do not exist.
    """
    if not data.is_dir():
        what = "is a file, not a folder" if data.is_file() else "no such folder"
        raise MissingFileError(f"{data}: {what}. Give the folder that holds the files of {task}.")
    tried = [f"{folder}/{name}" if folder else name for folder in ("", *folders) for name in names]
    for name in tried:
        if (data / name).exists():
            return data / name
    raise MissingFileError(
        f"no file for split {split!r} of {task} in {data}; tried: {', '.join(tried)}."
    )


def read_table(
    path: Path, needed: Sequence[str], *, header: Sequence[str] = (), broken: bool = False
) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a published table: TABs, no quoting; blank lines are left out.

    Args:
        path: the file.
        needed: columns that it must have.
        header: names of its columns, where the file has none in its first line.
        broken: leave out rows with fewer cells than columns, with a message.

    Returns:
        The line of each row, and its cells by column.

    Raises:
        DataError: a column is missing, or a row has another number of cells.
    """
    rows = [row for row in enumerate(read_lines(path), start=1) if row[1].strip(" \t")]
    if not rows:
        return []
    columns = list(header) or rows.pop(0)[1].split("\t")
    missing = [name for name in needed if name not in columns]
    if missing:
        raise DataError(
            f"{path}, line 1: expected a header with {', '.join(needed)}; {', '.join(missing)} "
            "missing. Is this the folder of another task?"
        )
    whole = [row for row in rows if not broken or row[1].count("\t") + 1 >= len(columns)]
    if len(whole) < len(rows):
        logger.warning("%s: %d broken rows are left out.", path, len(rows) - len(whole))
    return [
        (n, dict(zip(columns, tab_cells(path, n, line, len(columns)), strict=True)))
        for n, line in whole
    ]
