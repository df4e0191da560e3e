"""Warnings that a process gives once, however often it meets their cause."""

import logging
from functools import lru_cache


def warn_once(logger: logging.Logger, message: str, *values: object) -> None:
    """Log a warning, unless this process has given the same one before.

    Args:
        logger: of the module that warns.
        message: with ``%`` places for the values, if any, as for ``logger.warning``.
        values: what the message is about; they tell one warning from another.
    """
    _give(logger.name, message % values if values else message)


@lru_cache(maxsize=1024)
def _give(name: str, text: str) -> None:
    logging.getLogger(name).warning("%s", text)
