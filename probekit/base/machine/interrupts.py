"""Ctrl-C that waits: what is finished is written down before a process stops."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP = signal.SIGUSR1
"""What asks a worker to stop and hand over what it has finished; Ctrl-C reaches all processes."""


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let the first Ctrl-C (or `STOP`) wait for the end of a block; a second one ends it at once.

    Outside of the main thread, which alone is interrupted, nothing is held.
    """
    came: list[int] = []
    held = {
        number: handler
        for number in (signal.SIGINT, STOP)
        if callable(handler := signal.getsignal(number))
    }

    def release() -> None:
        for number, handler in held.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        release()

    if threading.current_thread() is not threading.main_thread():
        held.clear()
    for number in held:
        signal.signal(number, note)
    try:
        yield
    finally:
        release()
    if came:
        signal.raise_signal(came[0])
