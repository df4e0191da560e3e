"""Labels that are numbers: what counts as one, and one name for each."""

import math
import struct


def is_number(label: str) -> bool:
    """Return whether a label reads as a finite number."""
    try:
        return math.isfinite(float(label))
    except ValueError:
        return False


def score_name(value: float) -> str:
    """Return a score by the one name that it has in a table of text ("3.8") and on the Hub.

    The Hub stores float32. The name is the shortest decimal that means the same float32, with at
    least three digits after the point: 3.8 and 3.799999952316284 are both "3.800".
    """
    rounded = _float32(value)
    near = (f"{rounded:.{digits}f}" for digits in range(3, 10))
    return next((name for name in near if _float32(float(name)) == rounded), repr(rounded))


def _float32(value: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)
