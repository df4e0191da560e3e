"""Claims: which runs of a records file a process is training, so that no other trains them too.

A claim is a small file beside the records, ``<records>.<key>.claim``, that only one process can
create. It says whose it is, and its time of change is the heartbeat of its owner. A claim counts no
more once its owner is known to be gone (a process of this machine) or has been silent for too long
(of another one, or asleep): whoever wants the run next takes it over. An owner that was only asleep
finds its claim gone and does not record the run a second time.
"""

import json
import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Self

import psutil

from probekit.base.fingerprint import parse_json
from probekit.base.notices import warn_once
from probekit.results import log
from probekit.results.record import Record

logger = logging.getLogger(__name__)

POLL_SECONDS = 2.0
BEAT_SECONDS = 30.0
SILENT_SECONDS = 600.0
"""Age of the last heartbeat from which on an owner that cannot be looked up is taken for dead."""

CLAIM, SNAPSHOT = "claim", "snapshot"
"""Kinds of `run_file`."""

_SAME_START = 5.0
"""Seconds by which the start of one process may differ, as seen from two; ids are used again."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who trains a run.

    Attributes:
        host: name of its machine.
        machine: what its process id is valid in: see `_machine`.
        pid: its process id.
        started: when the process began, in seconds since 1970.
        name: tells it from others; one that continues the work of a lost one has its name.
    """

    host: str
    machine: str
    pid: int
    started: float
    name: str

    @classmethod
    def here(cls, name: str | None = None) -> Self:
        """Return an owner in this process, by default one that continues nobody's work."""
        return cls(
            host=socket.gethostname(),
            machine=_machine(),
            pid=os.getpid(),
            started=psutil.Process().create_time(),
            name=name or uuid.uuid4().hex,
        )

    def __str__(self) -> str:
        """Return who it is, for messages."""
        since = datetime.fromtimestamp(self.started).isoformat(" ", "minutes")
        return f"process {self.pid} on {self.host} (since {since})"

    def is_gone(self) -> bool:
        """Say whether the process has ended; False where that cannot be seen from here."""
        if self.machine != _machine():
            return False
        try:
            process = psutil.Process(self.pid)
            apart = abs(process.create_time() - self.started)
            return process.status() == psutil.STATUS_ZOMBIE or apart > _SAME_START
        except psutil.NoSuchProcess:
            return True


@dataclass(eq=False)
class Claims:
    """The claims of one owner on runs of one records file, alive while the context is open.

    Attributes:
        out: the records file.
        name: of the owner; who knows that the last one of this name is lost goes on with its
            claims at once, where others wait until it has been silent for long.
    """

    out: Path
    name: str | None = None

    def __post_init__(self) -> None:
        """Become an owner that has claimed nothing."""
        self._owner = Owner.here(self.name)
        self._held: set[str] = set()
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="probekit-claims", daemon=True)

    def __enter__(self) -> Self:
        """Remove what lost owners left, and start the heartbeat."""
        _remove_left(self.out)
        self._beating.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of every claim."""
        self._ended.set()
        self._beating.join()
        self.release(set(self._held))

    def take(self, keys: Iterable[str]) -> set[str]:
        """Claim runs, and return the keys of those that nobody else has claimed.

        Args:
            keys: record keys.

        Raises:
            StorageError: the claims cannot be written.
        """
        taken: set[str] = set()
        with log.records_lock(self.out):
            for key in keys:
                path = run_file(self.out, key)
                owner = _read(path)
                lost = owner is not None and owner.name == self.name
                if owner is not None and not lost and _counts(path, owner, self.out):
                    continue
                _let_go(path, owner)
                with suppress(FileExistsError), path.open("x") as file:
                    json.dump(asdict(self._owner), file)
                    taken.add(key)
                    self._held.add(key)
        return taken

    def record(self, record: Record) -> bool:
        """Append the record of a claimed run and let go of the claim.

        Returns:
            Whether it was appended: not if another process has taken the run over meanwhile.

        Raises:
            RecordError: the file ends in something that is no part of a record.
            StorageError: the file cannot be written.
        """
        with log.records_lock(self.out):
            is_owner = _read(run_file(self.out, record.key)) == self._owner
            if is_owner:
                log.append_line(self.out, record)
                run_file(self.out, record.key).unlink(missing_ok=True)
        self._held.discard(record.key)
        if not is_owner:
            logger.warning(
                "this process was silent for so long that another one has taken over the run %s: "
                "it is recorded there.",
                record.key[:16],
            )
        return is_owner

    def release(self, keys: Collection[str]) -> None:
        """Let go of claims without recording the runs."""
        held = self._held.intersection(keys)
        if not held:
            return
        with log.records_lock(self.out):
            for key in held:
                path = run_file(self.out, key)
                if _read(path) == self._owner:
                    path.unlink(missing_ok=True)
        self._held -= held

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            for key in list(self._held):
                path = run_file(self.out, key)
                with suppress(OSError):  # a beat that is missed is made up for by the next
                    if _read(path) == self._owner:
                        os.utime(path)


def run_file(out: Path, key: str, kind: str = CLAIM) -> Path:
    """Return a file of a run that is not recorded yet, beside the records.

    Args:
        out: the records file.
        key: record key of the run.
        kind: of the file: ``claim`` or ``snapshot``.
    """
    real = out.resolve()  # one set of claims, whatever the file is called
    return real.with_name(f"{real.name}.{key[:16]}.{kind}")


def _remove_left(out: Path) -> None:
    """Remove claims that count no more, and snapshots of runs that are recorded."""
    out = out.resolve()
    pattern = re.compile(rf"{re.escape(out.name)}\.([0-9a-f]{{16}})\.({CLAIM}|{SNAPSHOT})")
    left = [name for path in out.parent.glob("*") if (name := pattern.fullmatch(path.name))]
    if not left:
        return
    with log.records_lock(out):
        done = {key[:16] for key in log.recorded(out)}
        for name in left:
            path = out.with_name(name[0])
            owner = _read(path) if name[2] == CLAIM else None
            finished = name[1] in done
            if finished if owner is None else not _counts(path, owner, out):
                _let_go(path, None if finished else owner)


def tidy(out: Path) -> None:
    """Remove what a killed process left of runs that are recorded: claims, and a torn line."""
    _remove_left(out)
    if log.is_torn(out):
        log.check_appendable(out)


def _let_go(path: Path, owner: Owner | None) -> None:
    """Remove a file of a run whose owner, if it had one, is lost."""
    if owner is not None:
        warn_once(
            logger, "%s stopped before it recorded all runs that it had begun: taken over", owner
        )
    path.unlink(missing_ok=True)


def owners(out: Path, keys: Iterable[str]) -> dict[str, Owner]:
    """Return who trains which of some runs; those that nobody does are left out.

    Args:
        out: the records file.
        keys: record keys.
    """
    paths = {key: run_file(out, key) for key in keys}
    read = {key: _read(path) for key, path in paths.items()}
    return {key: own for key, own in read.items() if own and _counts(paths[key], own, out)}


def wait_for_change(out: Path, claimed: Mapping[str, Owner]) -> None:
    """Return when the first of some claims is let go, taken over, or counts no more.

    Args:
        out: the records file.
        claimed: as `owners` returned them.
    """
    while owners(out, claimed) == claimed:
        time.sleep(POLL_SECONDS)


def _read(path: Path) -> Owner | None:
    """Return whose a claim is; None if there is none, or what is there is none."""
    try:
        return Owner(**parse_json(path.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _counts(path: Path, owner: Owner, out: Path) -> bool:
    """Say whether the owner of a claim still trains, as far as can be seen from here."""
    if owner.is_gone():
        return False
    try:
        beat = path.stat().st_mtime
    except FileNotFoundError:  # let go of just now
        return False
    # Clocks of machines may differ: now is when that of the file system says that a file was
    # touched, one that is there anyhow.
    lock = log.lock_file(out)
    lock.touch()
    return abs(lock.stat().st_mtime - beat) < SILENT_SECONDS  # nobody beats in the future


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return what process ids are valid in: a machine since it started, or a container on it."""
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    parts = [boot.read_text().strip() if boot.exists() else ""]
    parts.append(os.readlink(namespace) if namespace.exists() else "")
    return " ".join([socket.gethostname(), *parts])
