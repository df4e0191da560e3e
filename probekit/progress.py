"""Progress bars on stderr that suit a terminal and a log file."""

import sys
from types import TracebackType
from typing import NoReturn, Self

from tqdm import tqdm

_TERMINAL, _FILE = 0.1, 30.0
"""Least seconds between two lines; in a file every one of them stays."""

_LINE = "{desc}: {percentage:.0f}% of {total_fmt} {unit}s, {elapsed} so far, {remaining} left"


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


class ProgressBar:
    """A bar that counts up to a total.

    In a terminal it moves; where stderr is a file or a pipe, a line twice a minute says where it
    stands, and short work says nothing.
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
            total: what there is to do, in units.
            desc: what is being done.
            unit: name of a unit.
            shown: False prints nothing, ever.
            initial: units that were done before.
            unit_scale: whether to write thousands as k.
            leave: whether the bar stays when it is closed.
        """
        moves = sys.stderr.isatty()
        self._bar: tqdm[NoReturn] = tqdm(
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

    def update(self, units: int) -> None:
        """Count units that were done."""
        self._bar.update(units)

    def __enter__(self) -> Self:
        """Return the bar."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the bar."""
        self._bar.close()
