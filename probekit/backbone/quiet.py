"""Silence of transformers: its warnings and bars are of things that probekit checks itself."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

from transformers.utils import logging as transformers_logging


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence warnings and progress bars of transformers inside the ``with`` block.

    Both are put back as they were. Errors still come through, as exceptions.
    """
    bars = transformers_logging.is_progress_bar_enabled()
    if bars:
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        # the bar over GGUF tensors heeds no setting
        with no_warnings(), redirect_stderr(io.StringIO()):
            yield
    finally:
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def no_warnings() -> Iterator[None]:
    """Silence the warnings of transformers inside the ``with`` block, batch after batch.

    Those of accelerate and bitsandbytes are of the same kind: where weights are, and, for each
    product, what 8 bits mean.
    """
    loggers = [logging.getLogger(name) for name in ("transformers", "accelerate", "bitsandbytes")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
