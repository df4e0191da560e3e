"""Processes of their own, to be interrupted or killed: forks of this one, which import nothing."""

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from probekit.cli import main

STREAMS = ("stdout", "stderr")


class Forked:
    """A child that works in a folder, where what it says is written."""

    def __init__(self, work: Callable[[], object], folder: Path) -> None:
        """Begin the work; its exit code is that of the ``SystemExit`` that it raises."""
        if torch.cuda.is_available():
            pytest.skip("torch takes no fork of a process that has used a GPU")
        self.code: int | None = None
        self._folder = folder
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _become(work, folder)

    @classmethod
    def typed(cls, folder: Path, *words: object) -> "Forked":
        """Begin a command of probekit's, as the script of that name does."""

        def command() -> None:
            sys.argv = ["probekit", *map(str, words)]
            main()

        return cls(command, folder)

    def has_ended(self) -> bool:
        """Say whether it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def wait(self, until: Callable[[], bool] = lambda: False) -> None:
        """Wait until it has ended, or something is so."""
        end = time.monotonic() + 60
        while not (self.has_ended() or until()):
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.003)

    def said(self) -> list[str]:
        """Wait for its end, and return what it wrote to stdout and to stderr."""
        self.wait()
        return [(self._folder / f"{self.pid}.{name}").read_text("utf-8") for name in STREAMS]


def _become(work: Callable[[], object], folder: Path) -> None:
    """Work in a child, whose output goes to files, and end it."""
    code: object = 70
    try:
        os.chdir(folder)
        for number, name in enumerate(STREAMS, start=1):
            os.dup2(os.open(f"{os.getpid()}.{name}", os.O_CREAT | os.O_WRONLY), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        work()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)
