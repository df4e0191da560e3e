"""Write a figure as PNG, SVG or PDF; the same figure gives the same bytes."""

import contextlib
import os
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from probekit.errors import OptionError, StorageError
from probekit.plots.style import RC

FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"dpi": 200, "metadata": {"Software": None}},
    ".svg": {"metadata": {"Date": None, "Creator": None}},
    ".pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
}
"""File name endings, and the options that they are written with: no dates, no versions."""


def check_suffix(path: str | Path) -> Path:
    """Return the path of a figure to be written.

    Raises:
        OptionError: its suffix is none of ``FORMATS``.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise OptionError(
            f"{path}: cannot write a figure as {path.suffix or 'a file without a suffix'!r}; "
            f"choose a name that ends in {', '.join(FORMATS)}."
        )
    return path


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure, complete or not at all; parent folders are created.

    Args:
        figure: what one of ``PLOTS`` returned.
        path: the file; its suffix chooses the format (PNG at 200 dpi, SVG, PDF).

    Returns:
        The path.

    Raises:
        OptionError: the suffix is another one; the message lists the three.
        StorageError: the file cannot be written.
    """
    path = check_suffix(path)
    kind = path.suffix.lower()
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(RC):
            figure.savefig(partial, format=kind[1:], **FORMATS[kind])
        partial.replace(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot write the figure ({error.strerror}).") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return path
