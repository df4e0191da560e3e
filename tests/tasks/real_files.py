"""The real data: read once, skipped with a reason where it is absent."""

import functools
import os
from pathlib import Path

import pytest

from probekit.tasks import Split, get_task

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("PROBEKIT_TEST_DATA", ROOT.parent / "shared" / "data"))


@functools.cache
def read(task: str, folder: str, split: str) -> Split:
    if not (DATA / folder).is_dir():
        pytest.skip(f"no {folder} in {DATA}; set PROBEKIT_TEST_DATA to the folder of real data")
    return get_task(task).read(split, DATA / folder)
