"""A stand-in for the ``backbone/`` folder of a cache entry."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backbone")
