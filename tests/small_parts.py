"""Let texts of a few kilobytes be read in parts, as large ones are."""

import pytest


def make_small(patch: pytest.MonkeyPatch, nbytes: int = 2000) -> None:
    """Make parts of about so many bytes, of a split of three times as much or more."""
    for name, size in (("PART_BYTES", nbytes), ("AT_ONCE", 3 * nbytes), ("_HEAD_BYTES", 500)):
        patch.setattr(f"probekit.tasks.formats.file_parts.{name}", size)
