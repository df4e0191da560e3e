"""Sizes and durations as people write them."""


def human_bytes(count: float) -> str:
    """Return a size such as ``4.1 GB`` (powers of ten, as disks are sold)."""
    for symbol in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {symbol}" if symbol == "B" else f"{count:.1f} {symbol}"
        count /= 1000
    return f"{count:.1f} TB"


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
