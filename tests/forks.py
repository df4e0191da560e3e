"""Work in forks of this process, which cost little since nothing is imported; some are killed."""

import itertools
import os
import pkgutil
import signal
from collections.abc import Callable


def begin(work: Callable[[], object]) -> int:
    """Start some work in a fork; return its process id."""
    if child := os.fork():
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


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
