"""Work in forks of this process, which cost little since nothing is imported; some are killed."""

import itertools
import os
import pkgutil
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


def begin(work: Callable[[], object], folder: Path | None = None) -> int:
    """Start some work in a fork; return its process id.

    Args:
        work: what is done; the exit code is that of a ``SystemExit`` that it raises.
        folder: where it is done, and what it says is written; None is as in this process.
    """
    if torch.cuda.is_available():
        pytest.skip("torch takes no fork of a process that has used a GPU")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    code: object = 70
    try:
        if folder is not None:
            _write_into(folder)
        work()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def _write_into(folder: Path) -> None:
    os.chdir(folder)
    for number, name in enumerate(STREAMS, start=1):
        os.dup2(os.open(f"{os.getpid()}.{name}", os.O_CREAT | os.O_WRONLY), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))


def ended(child: int) -> int:
    """Wait for a fork, and return its exit code: minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at(target: str, call: int, work: Callable[[], object]) -> None:
    """Do some work in a fork that is killed as it calls a function for the so-manieth time.

    Args:
        target: "package.module.Class.function".
        call: 1 is the first.
        work: what is done.
    """
    (owner, _, name), count = target.rpartition("."), itertools.count(1)
    holder = pkgutil.resolve_name(owner)
    function = getattr(holder, name)

    def counted(*given: object, **options: object) -> object:
        if next(count) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given, **options)

    def killed() -> None:
        setattr(holder, name, counted)
        work()

    assert ended(begin(killed)) == -signal.SIGKILL


class Forked:
    """A child that works in a folder, where what it says is written."""

    def __init__(self, work: Callable[[], object], folder: Path) -> None:
        """Begin the work."""
        self.code: int | None = None
        self._folder, self.pid = folder, begin(work, folder)

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
