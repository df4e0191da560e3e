"""A process that copies or converts an entry slowly, to be killed."""

import time
from pathlib import Path

from probekit.extraction import plan as plan_module
from probekit.extraction import units
from probekit.extraction.maintenance import EntryCopy, plan_conversion
from probekit.store.builder import EntryBuilder


def make_slowly(path: Path, root: Path, dtype: str | None) -> None:
    """Copy an entry, or convert it in small units, with a pause behind each unit."""
    units.UNIT_BYTES = 6_000
    plan_module.chunk_rows_for = lambda dim, dtype, rows: 16
    for name in ("copy_unit", "write_unit"):
        setattr(EntryBuilder, name, _slow(getattr(EntryBuilder, name)))
    made = (
        EntryCopy.of(path, root) if dtype is None else plan_conversion(path, dtype=dtype, root=root)
    )
    made.apply()


def _slow(write):
    def call(*arguments):
        write(*arguments)
        time.sleep(0.1)

    return call
