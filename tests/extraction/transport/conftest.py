"""A local Hub that takes uploads, and entries of a model that is gone."""

import shutil
from pathlib import Path

import pytest

from probekit.store.entry import Entry
from probekit.store.layout import entry_folder
from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import run as extract
from tests.hub_server import HubServer
from tests.store import synthetic

REPO = "me/states"


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            # httpx2, of how huggingface_hub uploads bytes
            item.add_marker(pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with HubServer({}, uploads=tmp_path / "hub") as server:
        server.redirect(monkeypatch, tmp_path / "home")
        yield server


@pytest.fixture
def repo(tmp_path):
    """The folder that holds what was pushed."""
    return tmp_path / "hub" / "datasets" / REPO


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("text") / "corpus", sentences=40)


@pytest.fixture(scope="session")
def made(tmp_path_factory, corpus):
    """The entries of train and dev, by split; the model is no more."""
    root = tmp_path_factory.mktemp("made")
    model = tiny.build("bert", root / "bert")
    found = {
        split: extract(model, corpus, root / "cache", split, keep=("words", "tokens")).path
        for split in ("train", "dev")
    }
    shutil.rmtree(model)
    return {name: Entry.open(path) for name, path in found.items()}


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "pulled"


def stored(root, backend="zarr", dtype="float32", split="train"):
    """A synthetic entry with several chunks of words and tokens, without labels."""
    key = synthetic.manifest(backend, dtype, split).key
    path = entry_folder(root, "tiny", "demo", split, key)
    return synthetic.build(path, backend, dtype, split=split)
