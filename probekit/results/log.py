"""The append-only file of records: one JSON line each, safe against kills and other writers."""

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from probekit.base.fingerprint import CHECKSUM, digest, is_changed, parse_json, with_checksum
from probekit.base.registry import PathName
from probekit.base.replacing import matching, standing_files, sync_path
from probekit.errors import MissingFileError, RecordError, StorageError
from probekit.results.record import FIELDS, Record

logger = logging.getLogger(__name__)

LOCK_SUFFIX = ".lock"
_LONGEST = 2**28  # bytes of a line beyond which it is no record


def append_record(path: PathName, record: Record) -> None:
    """Append one record to a results file as a whole line, under the lock ``<path>.lock``.

    A last line that a killed writer left torn is cut off first. Parent folders are created.

    Args:
        path: the results file; created when it does not exist.
        record: what to append.

    Raises:
        RecordError: the file ends in something that is no part of a record.
        StorageError: the file cannot be written (no permission, disk full).
    """
    path = Path(path)
    with records_lock(path):
        append_line(path, record)


def check_appendable(path: PathName) -> None:
    """Check, before any costly work, that records can be appended to ``path``.

    A last line that a killed writer left torn is cut off.

    Raises:
        RecordError: the file ends in something that is no part of a record.
        StorageError: it cannot be written.
    """
    path = Path(path)
    with records_lock(path):
        if path.exists():
            with path.open("r+b") as file:
                _mend_tail(path, file.fileno())


def is_torn(path: Path) -> bool:
    """Say whether a results file ends within a line; none that is not there does."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        return size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"


def lock_file(path: Path) -> Path:
    """Return the file that is locked for a results file, the same for every path that leads to it.

    Args:
        path: the results file, or a symbolic link to it.
    """
    real = path.resolve()
    return real.with_name(real.name + LOCK_SUFFIX)


@contextmanager
def records_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a results file, under whatever name; its folder is created.

    Raises:
        StorageError: it, or what is written meanwhile, cannot be written.
    """
    try:
        lock = lock_file(path)
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            yield
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"{path}: cannot append a record ({error.strerror or error}); "
            "choose another results file with --out, or make room there."
        ) from error


def append_line(path: Path, record: Record) -> None:
    """Append a record to a results file whose lock is held; a torn last line is cut off first.

    Raises:
        RecordError: the file ends in something that is no part of a record.
        StorageError: the disk is full.
    """
    stored = with_checksum(_portable(record, path).to_json())
    line = json.dumps(stored, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    with path.open("a+b") as file:
        size = _mend_tail(path, file.fileno())
        if os.write(file.fileno(), line) != len(line):
            os.ftruncate(file.fileno(), size)
            raise StorageError(f"{path}: the disk is full; the record was not written. Make room.")
        os.fsync(file.fileno())
    if size == 0:
        sync_path(path.parent)


_BEGINS = re.compile(rb'\{"model": "(?:[^"\\]|\\.)*(?:"(?P<more>.*)?)?', re.DOTALL)
_TWO_ON_A_LINE = (
    "holds a whole record and something else. Put each record on a line of its own, or choose "
    "another results file with --out."
)

_GOES_ON = b', "task": "'
"""What every record begins with, and goes on with behind the model's name."""


def _mend_tail(path: Path, descriptor: int) -> int:
    """Leave the file ending in a newline (or empty) and return its size."""
    size = length = os.fstat(descriptor).st_size
    tail = b""
    for block in (2**16, 2**22, _LONGEST):
        length = min(block, size)
        tail = os.pread(descriptor, length, size - length)
        if length == size or b"\n" in tail:
            break
    tail = tail.rpartition(b"\n")[2]  # what comes after the last newline
    if not tail:
        return size
    if _is_record(tail):  # whole, but saved by an editor without its newline
        return size + os.pwrite(descriptor, b"\n", size)
    if _holds_a_record(tail):
        raise RecordError(f"{path}, last line: {_TWO_ON_A_LINE}")
    earlier = None
    if size > len(tail):
        with path.open("rb") as file:
            earlier = file.readline(_LONGEST)
    named = path.suffix.lower() == ".jsonl" or _GOES_ON in tail
    ours = named if earlier is None else _is_record(earlier)
    if _is_json(tail) or not (ours and _begins_a_record(tail.lstrip(b"\0"))):  # zeros: power lost
        raise RecordError(
            f"{path}: not a file of records (its last line is {tail[:40]!r}); "
            "choose another results file with --out."
        )
    os.ftruncate(descriptor, size - len(tail))
    logger.warning("%s: cut off a torn last line of %d bytes", path, len(tail))
    return size - len(tail)


def _begins_a_record(line: bytes) -> bool:
    beginning = _BEGINS.match(line)
    if beginning is None:
        return b'{"model": "'.startswith(line)
    more = beginning["more"] or b""
    return more.startswith(_GOES_ON) or _GOES_ON.startswith(more)


def _holds_a_record(line: bytes) -> bool:
    """Say whether a line that is no JSON holds a whole record, with something before or after."""
    text, decoder = line.decode("utf-8", "replace"), json.JSONDecoder()
    for start in {0, *(match.start() for match in re.finditer(r'\{"model": "', text))}:
        with suppress(ValueError, RecursionError):
            value, _ = decoder.raw_decode(text, start)
            if isinstance(value, dict) and {"model", "key"} <= value.keys():
                return True
    return False


def _is_record(line: bytes) -> bool:
    value = _is_json(line) and parse_json(line)
    return isinstance(value, dict) and {"model", "key"} <= value.keys()


def _is_json(line: bytes) -> bool:
    try:
        parse_json(line)
    except ValueError:  # also undecodable bytes: UnicodeDecodeError is a ValueError
        return False
    return True


def predictions_folder(file: Path) -> Path:
    """Return where the predictions of the runs of a records file lie."""
    return file.parent / f"{file.stem}-predictions"


def recorded(path: Path) -> dict[str, Record]:
    """Return the records of a results file by key; none if there is no file yet.

    Predictions that were moved together with the file are found beside it.

    Raises:
        RecordError: a line is no record.
    """
    return {record.key: record for record in _read_file(path)} if path.is_file() else {}


def read_records(paths: Iterable[PathName]) -> tuple[list[Record], dict[str, Path]]:
    """Return the records of results files, and the file of each by its key.

    Where a key occurs more than once, the last record with it counts, at the place of the first.

    Args:
        paths: files, or folders, which stand for every ``*.jsonl`` below.

    Raises:
        MissingFileError: a path does not exist, or a folder holds no results file.
        RecordError: a line is no record; the message names file and line.
    """
    by_key: dict[str, Record] = {}
    origins: dict[str, Path] = {}
    total = 0
    for file in [file for path in paths for file in _files(Path(path))]:
        for record in _read_file(file):
            by_key[record.key] = record
            origins[record.key] = file
            total += 1
    if total > len(by_key):
        logger.debug("left out %d records: later ones have the same key", total - len(by_key))
    return list(by_key.values()), origins


_OF_TEXT = re.compile(r"[^/]*(-[0-9a-f]{8})")
"""The name of data of one's own: what its path was called, and a hash of its text."""


def told_by_text(records: Iterable[Record]) -> list[Record]:
    """Return records of which those of one text say so, under one name.

    A record without `Record.texts` has those of others with the same entry and labels, where these
    agree. A text that was extracted under two paths has the name of the first record.
    """
    given = list(records)
    said: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for record in given:
        texts = said.setdefault((record.entry, record.labels_fingerprint), [])
        if record.texts and record.texts not in texts:
            texts.append(record.texts)
    names: dict[tuple[str, str], str] = {}
    renamed = []
    for record in given:
        texts = said[record.entry, record.labels_fingerprint]
        known = texts[0] if len(texts) == 1 else record.texts
        name = record.task
        if stem := _OF_TEXT.fullmatch(name):
            text = digest(known) if known else record.labels_fingerprint
            name = names.setdefault((stem[1], text), name)
        same = (known, name) == (record.texts, record.task)
        renamed.append(record if same else replace(record, texts=known, task=name))
    return renamed


def _portable(record: Record, file: Path) -> Record:
    """Return a record that names predictions beside its results file from there on.

    So a file that is shown to others tells nothing of the folders of a machine.
    """
    if record.predictions is None:
        return record
    path = Path(record.predictions)
    if path.parent.parent.absolute() != file.parent.absolute():
        return record
    return replace(record, predictions=f"{path.parent.name}/{path.name}")


def _beside(record: Record, file: Path) -> Record:
    """Return a record whose predictions lie where its results file does now.

    Files of earlier versions name the path as it was when they were written.
    """
    if record.predictions is None:
        return record
    path = Path(record.predictions)
    beside = file.parent / path.parent.name / path.name
    portable = path.parent == Path(predictions_folder(file).name)  # as `_portable` writes it
    moved = portable or (beside.is_file() and not path.is_file())
    return replace(record, predictions=str(beside)) if moved else record


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = standing_files(path, ".jsonl")
    if not files:
        what = "this folder holds no results file (*.jsonl)" if path.is_dir() else "no such file"
        beside = matching(path.parent, "*.jsonl")
        near = [str(file) for file in beside if file.name.startswith(path.stem)]
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise MissingFileError(
            f"{path}: {what}; run `probekit train`, `sweep` or `depth` first.{hint}"
        )
    return files


def _read_file(path: Path) -> list[Record]:
    records = []
    unknown: set[str] = set()
    without = 0
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        last = number == len(lines)  # no newline after it: a writer was killed, or is writing
        if last and not _is_json(line) and not _holds_a_record(line):
            if line.strip():
                logger.warning("%s, line %d: ignored a torn last line", path, number)
            break
        if not line.strip():
            continue
        try:
            data = _parsed(line)
            if data.get("resample") is None:  # a probe that an earlier version fitted to resamples
                records.append(_beside(Record.from_known(data), path))
                unknown |= data.keys() - FIELDS - {CHECKSUM}
        except RecordError as error:
            raise RecordError(f"{path}, line {number}: {error}") from None
        without += CHECKSUM not in data
    if without:
        logger.info("%s: %d records without a checksum, of an earlier version", path, without)
    if unknown:
        logger.info("%s: ignored unknown record fields: %s", path, ", ".join(sorted(unknown)))
    return records


def _parsed(line: bytes) -> dict[str, Any]:
    """Return the values of a record's line."""
    try:
        data = parse_json(line)
    except ValueError as error:
        if _holds_a_record(line):
            raise RecordError(_TWO_ON_A_LINE) from None
        raise RecordError(f"not a JSON line ({error}); delete or repair it.") from None
    if not isinstance(data, dict):
        found = type(data).__name__
        raise RecordError(
            f"expected a record (a JSON object), found {found}; delete or repair the line."
        )
    if is_changed(data):
        raise RecordError(
            "its checksum does not match, so it is damaged; delete the line to train the run "
            "again. If you changed it on purpose, delete its checksum."
        )
    return data
