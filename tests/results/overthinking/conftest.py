"""Side files in memory."""

import pytest

from probekit.results.comparison import pairing
from tests.results.overthinking.held import read_held


@pytest.fixture(autouse=True)
def held(monkeypatch):
    monkeypatch.setattr(pairing, "read_predicted", read_held)
