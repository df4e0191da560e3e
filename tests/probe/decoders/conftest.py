"""A stand-in for the ``backbone/`` folder of a cache entry."""

from pathlib import Path

import pytest

from probekit.probe.model_parts import OUTPUT_HEAD_FILE
from tests.probe.decoders.cases import output_head


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backbone")
    (folder / OUTPUT_HEAD_FILE).write_bytes(output_head().to_file())
    return folder
