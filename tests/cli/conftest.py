"""A tiny model, a small corpus and their entries, made once through the command line."""

import shutil
from pathlib import Path

import pytest

from tests import tiny
from tests.cli.console import done
from tests.extraction.corpus import write_corpus

FLOAT32 = ("--compute-dtype", "float32")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs in a folder of its own, so that cache/ and runs/ are its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny BERT (do not change it)."""
    return tiny.build("bert", tmp_path_factory.mktemp("model") / "bert")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.conll and dev.conll: word, part of speech, entity (do not change it)."""
    return write_corpus(tmp_path_factory.mktemp("data") / "corpus")


@pytest.fixture(scope="session")
def entries(tmp_path_factory: pytest.TempPathFactory, bert: Path, corpus: Path) -> Path:
    """A cache root with the entries of train and dev (do not change them)."""
    root = tmp_path_factory.mktemp("caches")
    done("extract", bert, corpus, *FLOAT32, "--cache", root)
    return root


@pytest.fixture
def cache(entries: Path, here: Path) -> Path:
    """The default cache of the test's own folder, filled; it may be damaged."""
    return Path(shutil.copytree(entries, here / "cache"))


@pytest.fixture(scope="session")
def records(
    tmp_path_factory: pytest.TempPathFactory, entries: Path, bert: Path, corpus: Path
) -> Path:
    """A records file with few-shot runs of two heads and all depths (do not change it)."""
    file = tmp_path_factory.mktemp("runs") / "records.jsonl"
    common = (bert, corpus, "--cache", entries, "--epochs", "2", "--out", file)
    done("sweep", *common, "--head", "p32,attention-fusion", "--shots", "4,8", "--seeds", "2")
    done("depth", *common)
    return file


def entry_of(cache: Path, split: str) -> Path:
    """The entry folder of one split in a cache with one entry per split."""
    (found,) = cache.glob(f"*/*/{split}-????????")
    return found
