"""A small corpus, a tiny model, units so small that a corpus has several, and entries to share."""

import pytest
import torch
from transformers import AutoModel

from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import run


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return str(tiny.build("bert", tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="session")
def wide_bert(tmp_path_factory):
    """A model whose embeddings exceed float16: the norm behind them multiplies by 100,000."""
    folder = tiny.build("bert", tmp_path_factory.mktemp("wide"))
    model = AutoModel.from_pretrained(folder)
    with torch.no_grad():
        model.embeddings.LayerNorm.weight.mul_(1e5)
    model.save_pretrained(folder)
    return str(folder)


def make_small(patch, nbytes=20_000):
    """Let a corpus of a few hundred words have several units, and each of these several chunks."""
    patch.setattr("probekit.extraction.plan.UNIT_BYTES", nbytes)
    patch.setattr("probekit.extraction.plan.chunk_rows_for", lambda dim, dtype, rows: 16)


@pytest.fixture
def small_units(monkeypatch):
    make_small(monkeypatch)


@pytest.fixture(scope="session")
def made(bert, corpus, tmp_path_factory):
    """A function to the entry of some options; each is extracted once, and not to be changed."""
    root, entries = tmp_path_factory.mktemp("made"), {}

    def entry(**options):
        key = repr(sorted(options.items()))
        if key not in entries:
            with pytest.MonkeyPatch.context() as patch:
                make_small(patch)
                entries[key] = run(bert, corpus, root / str(len(entries)), **options)
        return entries[key]

    return entry


@pytest.fixture
def many_units(tmp_path_factory, monkeypatch):
    """A model and a corpus of some ten units."""
    make_small(monkeypatch, 8_000)
    folder = tmp_path_factory.mktemp("many")
    model = tiny.build("gpt2", folder / "model")  # it has a final norm, which is a file too
    return model, write_corpus(folder / "corpus", sentences=60)


@pytest.fixture
def small_file(monkeypatch):
    """How fast the disk is matters to no forecast here; the command line's tests write 64 MiB."""
    monkeypatch.setattr("probekit.extraction.forecasting._MEASURED_BYTES", 2**20)
