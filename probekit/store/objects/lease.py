"""A lock in an object store: an object that its holder made, and makes anew while it holds it.

There is nothing there that goes with its process, so a lock expires. Its holder renews it every few
seconds, and writes nothing more once it could not for a while (`Lease.check`). Whoever finds it not
renewed for much longer may take it over: by then no request of the holder's is under way any more.
On the holder's own machine a dead process is seen at once, so that a killed run need not wait.
"""

import json
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from probekit.errors import EntryLockedError, StorageError
from probekit.store.objects.bucket import PUT_SECONDS, LostPutError, Tag
from probekit.store.objects.object_path import ObjectPath

_RENEWED_EVERY = 10.0
_TRUSTED = 30.0
"""Seconds after its last renewal for which a holder takes the lock for its own."""

_EXPIRED = _TRUSTED + 2 * PUT_SECONDS
"""Seconds without a renewal after which others take it over."""

_WATCHED_EVERY = 2.0


class Lease:
    """The lock at one place: not held when it is made."""

    def __init__(self, path: ObjectPath, what: str) -> None:
        """Name it.

        Args:
            path: the object.
            what: what it locks, for messages.
        """
        self._path, self._what = path, what
        self._told: dict[str, Any] = {}
        self._tag: Tag = {}
        self._renewed = 0.0
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._renewing = threading.Lock()

    def acquire(self, shard: str | None = None) -> None:
        """Take it; of a process that died, at once on its own machine, else when it has expired.

        Raises:
            EntryLockedError: it is held; says by whom.
            StorageError: the object store refuses.
        """
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self._told = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": started,
            "within": _machine(),
            **({} if shard is None else {"shard": shard}),
        }
        tag = None
        while (holder := read_lease(self._path)) is not None:
            told, tag = holder
            if not _is_dead(told) and not self._expired(told, tag):
                raise locked(self._what, told)
            break
        try:
            self._put(tag)
        except LostPutError:
            found = read_lease(self._path)
            raise locked(self._what, None if found is None else found[0]) from None
        self._done.clear()
        self._thread = threading.Thread(target=self._keep, name="probekit-lease", daemon=True)
        self._thread.start()

    @property
    def held_alone(self) -> bool:
        """Whether its holder, if known, is a process that builds an entry alone."""
        found = read_lease(self._path)
        return found is not None and "shard" not in found[0]

    def check(self) -> None:
        """Refuse to go on where others may have taken it over meanwhile.

        Raises:
            StorageError: it could not be renewed for too long.
        """
        if self._thread is not None and time.monotonic() - self._renewed > _TRUSTED:
            raise StorageError(
                f"{self._what}: the lock could not be renewed for {_TRUSTED:.0f} seconds, since "
                "the object store does not answer, or another process took it over. Run the same "
                "command again (finished units are kept)."
            )

    def release(self, *, keep: bool = False) -> None:
        """Give it back if it is held."""
        if self._thread is None:
            return
        self._done.set()
        self._thread.join()
        self._thread = None
        # once it may be another's, it expires by itself
        if time.monotonic() - self._renewed < _TRUSTED:
            self._path.unlink()

    def _put(self, tag: Tag | None) -> None:
        sent = time.monotonic()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        written = self._told | {"renewed": now, "token": uuid4().hex}
        self._tag = self._path.bucket.put_if(self._path.key, json.dumps(written).encode(), tag)
        self._renewed = sent

    def _keep(self) -> None:
        """Renew it until it is given back, or taken over."""
        while not self._done.wait(_RENEWED_EVERY):
            try:
                self._put(self._tag)
            except LostPutError:
                self._renewed = -_TRUSTED
                return
            except (StorageError, FileNotFoundError):
                continue  # `check` says so when it lasts

    def _expired(self, told: dict[str, Any], tag: Tag) -> bool:
        """Say whether a lock is not renewed any more: watched, since clocks differ."""
        with suppress(ValueError, TypeError, KeyError):
            age = datetime.now(UTC) - datetime.fromisoformat(told["renewed"])
            if age.total_seconds() < _EXPIRED:
                return False
        end = time.monotonic() + _EXPIRED
        while time.monotonic() < end:
            time.sleep(_WATCHED_EVERY)
            found = read_lease(self._path)
            if found is None or found[1] != tag:
                return False
        return True


def read_lease(path: ObjectPath) -> tuple[dict[str, Any], Tag] | None:
    """Return what a lock says of its holder, and its tag; None where it is not held."""
    try:
        data, tag = path.bucket.tagged(path.key)
    except FileNotFoundError:
        return None
    try:
        told = json.loads(data)
    except ValueError:
        told = None
    return (told if isinstance(told, dict) else {}), tag


def check_free(path: ObjectPath, what: str) -> None:
    """Refuse what is locked by a process that lives, or may.

    Raises:
        EntryLockedError: it is.
    """
    found = read_lease(path)
    if found is not None and not _is_dead(found[0]):
        raise locked(what, found[0])


def locked(what: str, told: dict[str, Any] | None) -> EntryLockedError:
    """Return the error that says who holds a lock."""
    who = "another process"
    if told and told.keys() >= {"host", "pid", "started"}:
        who = f"process {told['pid']} on {told['host']}, started {told['started']}"
    return EntryLockedError(
        f"{what} is being written by {who}. Wait until it is done, or stop it and run this command "
        "again (finished units are kept). A process that was killed on another machine is taken "
        f"for dead {_EXPIRED:.0f} seconds later."
    )


def _is_dead(told: dict[str, Any]) -> bool:
    """Say whether a holder was a process of this machine that is there no more."""
    pid = told.get("pid")
    if told.get("within") != _machine() or type(pid) is not int or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # somebody else's
        return False
    return False


def _machine() -> str:
    """Return what tells this machine, and where process numbers mean the same, from all others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # no Linux: such a process is waited for
        return f"{socket.gethostname()} {uuid4().hex}"
