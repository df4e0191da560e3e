"""Labels beside an entry: by name, aligned by example id, one Parquet file per version.

Labels are no part of the sealed entry, so corrected annotations never need the backbone. What
sentences have in common, such as their document, is kept in the same way, and is no label.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from probekit.base.fingerprint import digest
from probekit.base.replacing import matching, remove_left
from probekit.errors import EXTRACT_AGAIN, DataError, EntryError
from probekit.store.entry import Entry
from probekit.store.files import storage_errors, write_whole
from probekit.store.layout import labels_folder
from probekit.store.manifest import Manifest
from probekit.store.tables import read_table, table_bytes

logger = logging.getLogger(__name__)

_SCHEMA = pa.schema([("id", pa.string()), ("labels", pa.list_(pa.string()))])
GROUPS = "groups"
"""Kind of a file that holds the group of each example, in place of labels."""

PART = "part"
"""Kind, and column, of a file that says which part of a split an entry's text is."""

_SINCE = (b"text", b"kind", b"metric")
"""Fields that label files of format version 1 have not got."""


@dataclass(frozen=True, slots=True)
class LabelFile:
    """One stored version of the labels of a split and column.

    Attributes:
        path: the Parquet file.
        split: the split's name.
        column: the label column ("ner").
        text: fingerprint of the text that is labelled, as the entry's request has it.
        kind: what the column labels ("tagging": each word); `GROUPS` or `PART` of what is no label.
        metric: the metric that scores it; empty of what is no label.
        fingerprint: hash of ids and labels, as the task computes it.
        created: when it was written last, UTC, ISO 8601 with microseconds.
    """

    path: Path
    split: str
    column: str
    text: str
    kind: str
    metric: str
    fingerprint: str
    created: str

    @property
    def of(self) -> tuple[str, str]:
        """Split and fingerprint of the text that it labels."""
        return self.split, self.text

    def called(self, digits: int = 8) -> str:
        """Return the name of its file: split, column, and a hash of what is labelled how.

        Args:
            digits: of the hash; twice as many where another version has the same first eight.
        """
        version = digest([self.text, self.fingerprint])[:digits]
        return f"{'-'.join(map(_slug, (self.split, self.column, version)))}.parquet"


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The labels of a split and column.

    Attributes:
        file: where they are stored.
        ids: example ids.
        values: the label names of each example, one per word (one in all for sentences).
    """

    file: LabelFile
    ids: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]


def write_labels(
    folder: Path,
    split: str,
    column: str,
    ids: Sequence[str],
    values: Sequence[Sequence[str]],
    *,
    text: str,
    kind: str,
    metric: str,
    fingerprint: str,
) -> Path:
    """Write a version of the labels; writing the same version again makes it the newest.

    Args:
        folder: the task's label folder (`labels_folder`).
        split: the split's name.
        column: the label column.
        ids: example ids.
        values: label names of each example.
        text: fingerprint of the text that is labelled.
        kind: what the column labels, or `GROUPS`.
        metric: the metric that scores it; empty of `GROUPS`.
        fingerprint: hash of ids and labels.

    What is there already is not written again: the cache may be one that is only read.

    Raises:
        DataError: the numbers of ids and of values differ.
        StorageError: the folder cannot be written.
    """
    if len(ids) != len(values):
        raise DataError(
            f"labels {column!r} of split {split!r}: expected one list per example "
            f"({len(ids)}), found {len(values)}."
        )
    created = datetime.now(UTC).isoformat(timespec="microseconds")
    file = LabelFile(folder, split, column, text, kind, metric, fingerprint, created)
    path = folder / file.called()
    if path.exists() and not _is_of(path, file):
        path = folder / file.called(16)
    file = replace(file, path=path)
    remove_left(folder)
    if _stands(file, tuple(ids), tuple(map(tuple, values))):
        return path
    described = _described(file)
    described["sum"] = digest(described)
    table = pa.table({"id": list(ids), "labels": [list(v) for v in values]}, schema=_SCHEMA)
    with storage_errors(folder):
        write_whole(path, table_bytes(table.replace_schema_metadata(described)))
    return path


def _is_of(path: Path, file: LabelFile) -> bool:
    """Say whether a file that is there is of the text of another, or of none that is known."""
    try:
        return _known_file(path).of == file.of
    except EntryError:
        return True


def _described(file: LabelFile) -> dict[str, str]:
    """Return what a label file says of itself, but for the sum of it."""
    described = asdict(file)
    del described["path"]
    return described


def _stands(file: LabelFile, ids: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> bool:
    """Say whether labels are stored already, and no other version of them counts before."""
    try:
        there = read_labels(file.path)
        stored = list(map(_known_file, matching(file.path.parent, "*.parquet")))
    except EntryError:
        return False
    others = (other for other in stored if (other.of, other.column) == (file.of, file.column))
    same = (replace(there.file, created=file.created), there.ids, there.values)
    newest = max(others, key=_counts_since, default=None) == there.file
    return newest and same == (file, ids, values)


def read_labels(path: Path) -> LabelSet:
    """Read one version of the labels.

    Raises:
        EntryError: the file is missing or damaged.
    """
    table = read_table(path, _SCHEMA)
    ids, lists = (table[name].combine_chunks() for name in _SCHEMA.names)
    if ids.null_count or lists.null_count or lists.flatten().null_count:
        raise EntryError(f"{path}: an id or a label is missing. {EXTRACT_AGAIN}")
    values = tuple(map(tuple, table["labels"].to_pylist()))
    return LabelSet(read_label_file(path), tuple(table["id"].to_pylist()), values)


def read_label_file(path: Path) -> LabelFile:
    """Read what a label file says of itself.

    Raises:
        EntryError: it is none, or says something else than its name, as damage does.
    """
    try:
        metadata = pq.read_schema(pa.BufferReader(path.read_bytes())).metadata or {}
        since = dict.fromkeys(_SINCE, b"")
        names = [field.name for field in fields(LabelFile)][1:]
        values = [(since | metadata)[name.encode()].decode() for name in names]
        said = metadata.get(b"sum", b"").decode()  # earlier files have none
    except (pa.ArrowException, KeyError, OSError, UnicodeDecodeError):
        raise EntryError(
            f"{path} is not a probekit label file. Delete it and read the labels again with --data."
        ) from None
    file = LabelFile(path, *values)
    may_be = file.called(), file.called(16)
    renamed = file.text and path.name not in may_be  # in format version 1 no text is named
    if renamed or said not in ("", digest(_described(file))):
        raise EntryError(
            f"{path} is damaged, or was renamed: its contents are those of {file.called()}. Delete "
            "it and read the labels again with --data."
        )
    return file


def _known_file(path: Path) -> LabelFile:
    """Return what a label file says of itself, read once as long as it stays as it is."""
    try:
        about = path.stat()
    except OSError:
        return read_label_file(path)  # it says what is wrong
    return _read_once(path, (about.st_ino, about.st_size, about.st_mtime_ns))


@lru_cache(maxsize=2**16)
def _read_once(path: Path, seen: tuple[int, ...]) -> LabelFile:
    return read_label_file(path)


def label_files(entry: Path, split: str) -> list[Path]:
    """Return the files that are labels of an entry's split by their names, readable or not."""
    files = matching(labels_folder(entry), "*.parquet")
    return [file for file in files if is_label_file(file.name, split)]


def is_label_file(name: str, split: str) -> bool:
    """Say whether a file is called as the labels of a split are."""
    return name.startswith(f"{_slug(split)}-") and name.endswith(".parquet")


def labels_for(entry: Entry, column: str) -> list[LabelFile]:
    """Return the stored versions of a column for an entry's text, newest first."""
    return _newest_first(labels_of(entry), column)


def groups_for(entry: Entry, column: str) -> list[LabelFile]:
    """Return the stored versions of the groups of an entry's examples, newest first."""
    return _newest_first((file for file in files_of(entry) if file.kind == GROUPS), column)


def _newest_first(files: Iterable[LabelFile], column: str) -> list[LabelFile]:
    mine = [file for file in files if file.column == column]
    return sorted(mine, key=_counts_since, reverse=True)


def _counts_since(file: LabelFile) -> str:
    """Return when a version was written; of one that is dated in the future, before all others."""
    return file.created if file.created <= datetime.now(UTC).isoformat() else ""


def read_newest(entry: Entry, files: Sequence[LabelFile]) -> LabelSet | None:
    """Return what was stored last of an entry's text; None where there is nothing of it, or a part.

    Args:
        entry: the entry.
        files: versions of one column, newest first.

    Raises:
        EntryError: a file is damaged.
    """
    newest = {file.text: file for file in reversed(files)}
    texts = [part.manifest.request["text"] for part in entry.parts]
    if not newest.keys() >= set(texts):
        return None
    sets = [read_labels(newest[text].path) for text in texts]
    return LabelSet(
        sets[0].file,
        tuple(chain.from_iterable(part.ids for part in sets)),
        tuple(chain.from_iterable(part.values for part in sets)),
    )


def label_columns(entry: Entry) -> list[str]:
    """Return the label columns that are stored for an entry's text."""
    return sorted({file.column for file in labels_of(entry)})


def labels_of(entry: Entry) -> list[LabelFile]:
    """Return the files of an entry that hold labels, and no groups."""
    return [file for file in files_of(entry) if file.kind not in (GROUPS, PART)]


def files_of(entry: Entry) -> list[LabelFile]:
    """Return all files beside an entry: those of its split and its text, or of all its parts."""
    mine = {(part.manifest.split, part.manifest.request["text"]) for part in entry.parts}
    folders = dict.fromkeys(labels_folder(part.path) for part in entry.parts)
    files = (_known_file(path) for of in folders for path in matching(of, "*.parquet"))
    return [file for file in files if file.of in mine]


def carry_labels(entry: Path, manifest: Manifest, folder: Path) -> list[Path]:
    """Copy the label files of an entry's text as they are; return those that were written.

    A version that is there already stays, unless the other is newer.

    Args:
        entry: the final folder of the entry whose labels they are; it need not be there yet.
        manifest: of the entry.
        folder: the label folder of the same task in another cache.

    Raises:
        EntryError: one of them is damaged.
        StorageError: the folder cannot be written.
    """
    remove_left(folder)
    written = []
    for path in filter(Path.is_file, label_files(entry, manifest.split)):
        labels = read_labels(path)
        if labels.file.of != (manifest.split, manifest.request["text"]):
            continue
        there = folder / path.name
        if _stays(there, labels):
            continue
        with storage_errors(folder):
            write_whole(there, path.read_bytes())
        written.append(there)
    return written


def _stays(there: Path, labels: LabelSet) -> bool:
    """Say whether a file stays in place of labels: it is as new, or these are not what they say."""
    if not _counts_since(labels.file):
        logger.warning("left out: %s is dated in the future", labels.file.path)
        return True
    try:
        stored = read_labels(there) if there.exists() else None
    except EntryError:  # power was lost while it was written
        return False
    if stored is not None and (stored.ids, stored.values) != (labels.ids, labels.values):
        logger.warning("left out: %s has different labels from %s", labels.file.path, there)
        return True
    return stored is not None and _counts_since(stored.file) >= labels.file.created


def _slug(part: str) -> str:
    return re.sub(r"[^\w.]+", "_", part)
