"""What is said while work goes on: progress, warnings given once, sizes and durations.

Progress bars go to stderr and suit a terminal, a log file and a notebook.
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec
from typing import IO, Any, NoReturn

from tqdm import tqdm

_TERMINAL, _FILE = 0.1, 30.0
"""Least seconds between two lines; in a file every one of them stays."""

_LINE = (
    "{desc}: {percentage:.0f}% of {total_fmt} {unit}s, {elapsed} so far, {remaining} left{postfix}"
)


def in_notebook() -> bool:
    """Say whether this process is the kernel of a notebook."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def _widget_bar() -> "type[tqdm[NoReturn]]":
    """Return the bar of notebooks; where there are no widgets, that of a terminal.

    ``tqdm.auto`` chooses in the same way, but warns every time of widgets that are not there.
    """
    if find_spec("ipywidgets") is None:
        return tqdm
    from tqdm.notebook import tqdm_notebook

    return tqdm_notebook


class _Lines:
    """Writes what a bar prints to stderr, a line each; the same one again is left out."""

    _last = ""

    def write(self, text: str) -> None:
        line = text.strip()
        if line and line != self._last:
            sys.stderr.write(line + "\n")
            self._last = line

    def flush(self) -> None:
        sys.stderr.flush()


def above_bars(stream: IO[str]) -> AbstractContextManager[Any]:
    """Return a context in which a line can be written to a stream without running into a bar."""
    return tqdm.external_write_mode(file=stream)


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """A bar that counts up to a total.

    In a terminal it moves; where stderr is a file or a pipe, a line twice a minute says where it
    stands, and short work says nothing. In a notebook it is a widget where ipywidgets is installed,
    else the bar of a terminal.
    """

    def __init__(
        self,
        *,
        total: int,
        desc: str,
        unit: str,
        shown: bool,
        initial: int = 0,
        unit_scale: bool = False,
        leave: bool = True,
    ) -> None:
        """Show the bar.

        Args:
            total: how many things there are to do.
            desc: what is being done.
            unit: what one of them is called.
            shown: False prints nothing, ever.
            initial: how many were done before.
            unit_scale: whether to write thousands as k.
            leave: whether the bar stays when it is closed.
        """
        self._total = total
        here = in_notebook()
        kind = _widget_bar() if here and shown else tqdm
        self._moves = moves = here or sys.stderr.isatty()
        self._bar: tqdm[NoReturn] = kind(
            total=total,
            initial=initial,
            desc=desc,
            unit=unit,
            unit_scale=unit_scale,
            leave=leave,
            file=sys.stderr if moves else _Lines(),
            disable=not shown,
            mininterval=_TERMINAL if moves else _FILE,
            miniters=1,  # or tqdm guesses how many updates make a line, and prints some twice
            delay=0 if moves else _FILE,
            bar_format=None if moves else _LINE,
        )

    def report(self, news: int | str) -> None:
        """Count things that were done, or show in words what is being done behind the bar.

        What is done twice, because a worker was killed, does not count beyond the total.
        """
        if isinstance(news, int):
            self._bar.update(min(news, self._total - self._bar.n))
        else:
            self._bar.set_postfix_str(news, refresh=self._moves)

    def __exit__(self, *error: object) -> None:
        """Close the bar."""
        self._bar.close()


def warn_once(logger: logging.Logger, message: str, *values: object) -> None:
    """Log a warning, unless this process has given the same one before.

    Args:
        logger: of the module that warns.
        message: with ``%`` places for the values, if any, as for ``logger.warning``.
        values: what the message is about; they tell one warning from another.
    """
    _once(logger.name, message % values if values else message, logging.WARNING)


def info_once(logger: logging.Logger, message: str, *values: object) -> None:
    """Log what is worth knowing, unless this process has said the same before; see `warn_once`."""
    _once(logger.name, message % values if values else message, logging.INFO)


_HUSHED = ContextVar("hushed", default=False)


def _once(name: str, text: str, level: int) -> None:
    if not _HUSHED.get():
        _give(name, text, level)


@contextmanager
def hushed() -> Iterator[None]:
    """Say nothing meanwhile of what is said once."""
    before = _HUSHED.set(True)
    try:
        yield
    finally:
        _HUSHED.reset(before)


@lru_cache(maxsize=1024)
def _give(name: str, text: str, level: int) -> None:
    logging.getLogger(name).log(level, "%s", text)


def human_bytes(count: float) -> str:
    """Return a size such as ``4.1 GB`` (powers of ten, as disks are sold)."""
    for symbol in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {symbol}" if symbol == "B" else f"{count:.1f} {symbol}"
        count /= 1000
    return f"{count:.1f} TB"


def human_list(names: Sequence[str], most: int = 20) -> str:
    """Return names with commas between them: so many, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def human_time(seconds: float) -> str:
    """Return a duration such as ``45 s``, ``12 min`` or ``3.5 h``."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def short_time(seconds: float) -> str:
    """Return a duration as ``human_time`` does, but ``20 ms`` or ``4.5 s`` below ten seconds."""
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else human_time(seconds)
