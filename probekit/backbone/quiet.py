"""Hold back what transformers says while it loads; probekit reports what matters itself."""

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
    logger = transformers_logging.get_logger("transformers")
    level = logger.level
    bars = transformers_logging.is_progress_bar_enabled()
    logger.setLevel(logging.ERROR)
    if bars:
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with redirect_stderr(io.StringIO()):  # the bar over GGUF tensors heeds no setting
            yield
    finally:
        logger.setLevel(level)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
