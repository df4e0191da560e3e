"""Splits that are too large to be read at once: which entries are their parts, and of what."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from probekit.base.fingerprint import digest
from probekit.base.notices import warn_once
from probekit.base.replacing import matching
from probekit.errors import EntryError, EntryNotFoundError
from probekit.store.entry import Entry, EntryFolder
from probekit.store.labels import PART, read_labels, write_labels
from probekit.store.layout import labels_folder
from probekit.store.manifest import Manifest

logger = logging.getLogger(__name__)


class PartMark(NamedTuple):
    """Which part of what a text is.

    Attributes:
        source: hash of what the split is read from, and how.
        number: 0, 1, ... in the order of the examples.
        last: whether none follows.
        limit: N where all parts are the first N examples of the split; None if they are all.
        marked: when that was written.
    """

    source: str
    number: int
    last: bool
    limit: int | None
    marked: str


Marks = Mapping[tuple[str, str], Sequence[PartMark]]
"""By split and fingerprint of a text."""


def write_mark(
    entry: Path, split: str, text: str, source: str, number: int, last: bool, limit: int | None
) -> None:
    """Write beside an entry which part of a split its text is.

    Args:
        entry: the entry's folder.
        split: the split's name.
        text: fingerprint of the part's text.
        source: hash of what the split is read from, and how.
        number: of the part.
        last: whether none follows.
        limit: N where all parts are the first N examples of the split.

    Raises:
        StorageError: the folder cannot be written.
    """
    said = {"source": source, "number": str(number), "last": str(last)}
    if limit is not None:
        said["limit"] = str(limit)
    write_labels(
        labels_folder(entry),
        split,
        PART,
        ids=list(said),
        values=[(value,) for value in said.values()],
        text=text,
        kind=PART,
        metric="",
        fingerprint=digest(said),
    )


def read_marks(entry: Path) -> Marks:
    """Return which parts the texts are whose entries lie beside one, damaged marks left out."""
    marks: dict[tuple[str, str], list[PartMark]] = {}
    for path in matching(labels_folder(entry), f"*-{PART}-*.parquet"):
        try:
            labels = read_labels(path)
            if labels.file.kind != PART:  # labels of a column that is called so
                continue
            said = {name: "".join(of) for name, of in zip(labels.ids, labels.values, strict=True)}
            number, last = int(said["number"]), said["last"] == "True"
            limit = int(said["limit"]) if "limit" in said else None
            mark = PartMark(said["source"], number, last, limit, labels.file.created)
        except (EntryError, KeyError, ValueError):
            warn_once(logger, "%s is damaged, and left out. Extracting again mends it.", path)
            continue
        marks.setdefault(labels.file.of, []).append(mark)
    return marks


@dataclass
class PartedSplit:
    """The entries of one split by part, of one model and one set of options.

    Attributes:
        source: hash of what the split is read from, and how.
        limit: N where they are the first N examples of the split; None if they are all.
        folders: by the part's number.
        last: number of the last part; None where its entry is not there.
        marked: when the last of them was marked.
    """

    source: str
    limit: int | None = None
    folders: dict[int, EntryFolder] = field(default_factory=dict)
    last: int | None = None
    marked: str = ""

    @property
    def head(self) -> EntryFolder:
        """The last part that is there, which the first examples of the split have not got."""
        return self.folders[max(self.folders)]

    @property
    def manifest(self) -> Manifest | None:
        """The manifest of its head as that of all parts; None where it cannot be read."""
        made = self.head.manifest
        return None if made is None else replace(made, extra={**made.extra, "limit": self.limit})

    @property
    def whole(self) -> bool:
        """Whether every part is there."""
        count = len(self.folders)
        return self.last == count - 1 and (min(self.folders), max(self.folders)) == (0, self.last)

    @property
    def key(self) -> str:
        """The key of the entry that all parts are together."""
        made = [self.folders[number].manifest for number in sorted(self.folders)]
        return digest([manifest.key for manifest in made if manifest is not None])

    def open(self) -> Entry:
        """Return the parts as one entry.

        Raises:
            EntryNotFoundError: some are missing.
            EntryError: one is damaged.
        """
        from probekit.store.joined import JoinedEntry  # with tensors

        if not self.whole:
            there, place = len(self.folders), self.head.path.parent
            of = "" if self.last is None else f" of {self.last + 1:,}"
            raise EntryNotFoundError(
                f"{place}: the split {self.head.split} is extracted in parts, and only "
                f"{there:,}{of} are there. Run the same `probekit extract` again: it does the rest."
            )
        parts = [Entry.open(self.folders[number].path) for number in sorted(self.folders)]
        return JoinedEntry.of(parts, self.limit)


def parted_splits(folders: Iterable[EntryFolder]) -> list[PartedSplit]:
    """Return the splits of which some folders hold the parts; of one the newest entry counts."""
    marks: dict[Path, Marks] = {}
    splits: dict[str, PartedSplit] = {}
    made = {f: f.manifest.created for f in folders if f.manifest is not None}
    for folder in sorted(made, key=lambda folder: made[folder]):
        place, text = folder.path.parent, folder.asked["text"]
        if place not in marks:
            marks[place] = read_marks(folder.path)
        for mark in marks[place].get((folder.split, text), ()):
            alike = {**folder.asked, "text": mark.source}
            split = splits.setdefault(
                digest([folder.split, alike]), PartedSplit(mark.source, mark.limit)
            )
            split.folders[mark.number] = folder
            split.last = mark.number if mark.last else split.last
            split.marked = max(split.marked, mark.marked)
    return list(splits.values())
