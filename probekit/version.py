"""The version of probekit."""

import re

__version__ = "0.1.0"


def is_newer(version: object) -> bool:
    """Say whether a version, as some file tells it, is newer than this one."""
    told, this = (re.findall(r"\d{1,9}", str(text))[:3] for text in (version, __version__))
    return isinstance(version, str) and [*map(int, told)] > [*map(int, this)]
