"""Side files in memory, for figures that are drawn from predictions."""

import matplotlib
import pytest

from probekit.results.comparison import pairing
from tests.results.overthinking.held import read_held


@pytest.fixture(autouse=True)
def held(monkeypatch):
    monkeypatch.setattr(pairing, "read_predicted", read_held)


@pytest.fixture(autouse=True)
def settings_stay():
    """No figure changes matplotlib's settings."""
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
