"""Where messages go: to stderr, above any bar, and to the file of ``--log-file``."""

import logging
import sys
from pathlib import Path
from typing import TextIO

from probekit.base.markup import spelled_out_lines
from probekit.errors import StorageError

logger = logging.getLogger("probekit")


class Spelled(logging.Formatter):
    """Names of strangers in messages move no cursor and set no title."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a message, their control characters spelled out."""
        return spelled_out_lines(super().format(record))


class Terminal(logging.StreamHandler[TextIO]):
    """Writes messages to stderr; a bar that is shown there stays below them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message."""
        from probekit.base.notices import above_bars

        with above_bars(self.stream):
            super().emit(record)


def start_messages(*, debug: bool, quiet: bool) -> None:
    """Send the messages of this process to stderr.

    Args:
        debug: also what helps to find a fault.
        quiet: only warnings and errors, and no bars.
    """
    terminal = Terminal(sys.stderr)
    terminal.setFormatter(Spelled("%(message)s"))
    terminal.setLevel(logging.DEBUG if debug else logging.WARNING if quiet else logging.INFO)
    logger.handlers = [terminal]
    logger.setLevel(terminal.level)
    logger.propagate = False
    # when peft imports it, it warns of a kernel that it can do without
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


def log_to(file: Path | None) -> Path | None:
    """Send all messages to a file as well, also those that ``--quiet`` keeps from stderr.

    Args:
        file: appended to, each line with its time; its folder is created.

    Returns:
        The same file.

    Raises:
        StorageError: it cannot be written.
    """
    if file is None:
        return None
    try:
        if any(
            isinstance(one, logging.FileHandler) and Path(one.baseFilename) == file.resolve()
            for one in logger.handlers
        ):  # a plan names it once for each of its tables
            return file
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(file, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"--log-file {file}: cannot be written ({error.strerror or error}); choose another."
        ) from error
    handler.setFormatter(Spelled("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(min(logger.level, logging.INFO))
    return file


def end_messages() -> None:
    """Close the file."""
    for handler in logger.handlers[:]:
        if isinstance(handler, logging.FileHandler):
            logger.removeHandler(handler)
            handler.close()
