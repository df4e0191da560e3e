"""A small corpus, a tiny model, and units so small that a corpus has several."""

import pytest

from probekit.extraction import plan as plan_module
from probekit.extraction import units
from tests import tiny
from tests.extraction.corpus import write_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return str(tiny.build("bert", tmp_path_factory.mktemp("bert")))


@pytest.fixture
def small_units(monkeypatch):
    """Several units and several chunks per unit, from a corpus of a few hundred words."""
    monkeypatch.setattr(units, "UNIT_BYTES", 20_000)
    monkeypatch.setattr(plan_module, "chunk_rows_for", lambda dim, dtype, rows: 16)
