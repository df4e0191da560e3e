"""What the judges' tests share: each says what it held against whom, for docs/judged.csv."""

import json
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

if "PROBEKIT_JUDGED" not in os.environ:  # the judges are installed by tools/judge.py alone
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def judged(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Write one row of the page: who judged, in which version, what, and what came of it.

    ``judged("tensorstore 0.1.78", "arrays of a Zarr entry, float16", "equal to the bit")``.
    Call it after the assertions; the file is named by ``PROBEKIT_JUDGED``.
    """

    def write(judge: str, what: str, result: str) -> None:
        command = f"make test-judges ARGS='-k {request.node.originalname}'"
        row = [judge, what, result, command, date.today().isoformat()]
        if file := os.environ.get("PROBEKIT_JUDGED"):
            with Path(file).open("a") as out:
                out.write(json.dumps(row) + "\n")

    return write
