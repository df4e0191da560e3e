"""A snapshot: a run half-way, on disk, so that it goes on from there when its process is lost."""

import hashlib
import io
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from probekit.base.replacing import replacing
from probekit.errors import reason_of
from probekit.results.claims import SNAPSHOT, run_file
from probekit.version import __version__

logger = logging.getLogger(__name__)

_DIGEST = hashlib.sha256().digest_size
"""Bytes before the state: its sha256."""

EVERY = 300.0
"""Seconds between two snapshots, so what a run that is killed loses."""


@dataclass(eq=False)
class Snapshot:
    """The file that keeps one run.

    Attributes:
        path: the file.
        key: record key of the run. What another run, or another version, has left is not read.
    """

    path: Path
    key: str
    _last: float = field(default_factory=time.monotonic, init=False)

    @classmethod
    def beside(cls, out: Path, key: str) -> "Snapshot":
        """Return the snapshot of a run that is recorded in ``out``."""
        return cls(run_file(out, key, SNAPSHOT), key)

    def read(self) -> Mapping[str, Any] | None:
        """Return the state that was kept; None where there is none, or none that can be used."""
        try:
            content = memoryview(self.path.read_bytes())
        except FileNotFoundError:
            return None
        if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
            logger.warning("%s is damaged: the run begins anew.", self.path)
            return None
        saved = torch.load(io.BytesIO(content[_DIGEST:]), map_location="cpu", weights_only=True)
        if not isinstance(saved, dict) or saved.get("of") != self._of:
            logger.warning("%s is of another run or version: the run begins anew.", self.path)
            return None
        logger.info("%s: going on after step %d.", self.path, saved["state"]["step"])
        state: Mapping[str, Any] = saved["state"]
        return state

    def keep(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Write a state, if it is time to.

        A disk that is full does not end the run: what cannot be written is said.
        """
        if time.monotonic() - self._last < EVERY:
            return
        try:
            content = io.BytesIO()
            torch.save({"of": self._of, "state": state()}, content)
            with replacing(self.path) as fresh, fresh.open("wb") as file:
                file.write(hashlib.sha256(content.getbuffer()).digest())
                file.write(content.getbuffer())
        except (OSError, RuntimeError) as error:
            logger.warning(
                "%s cannot be written (%s): a run that is killed would begin anew.",
                self.path,
                reason_of(error),
            )
        self._last = time.monotonic()

    def remove(self) -> None:
        """Remove the file, if there is one: the run is recorded."""
        self.path.unlink(missing_ok=True)

    @property
    def _of(self) -> list[str]:
        return [self.key, __version__]
