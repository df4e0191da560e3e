"""Planted features that no test changes, sweeps of them, and a trained head to carry elsewhere."""

import shutil

import pytest

from probekit.features import Location
from probekit.train.sweeps.run import sweep
from tests.planted import plant, plant_all
from tests.planted_texts import plant_all_texts, plant_texts
from tests.train.sweeps.samples import TEXTS, save


@pytest.fixture(scope="session")
def words(tmp_path_factory):
    """Where sentences with labels of words lie."""
    return Location(cache=plant_all(tmp_path_factory.mktemp("words")))


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """Where whole texts, pairs and numbers lie."""
    root = tmp_path_factory.mktemp("texts")
    for task in (*TEXTS, "glue/mnli"):
        plant_all_texts(root, task)
    plant_texts(root, "glue/mnli", "dev-mm", seed=7, count=40)
    plant_texts(root, "glue/mnli", "test-mm", seed=8, count=40, labelled=False)
    return Location(cache=root)


@pytest.fixture
def swept(tmp_path, words):
    """Sweep the words, or what else is said, into a file of the test's own."""

    def sweep_here(plan, name="r", **options):
        return sweep(plan, out=tmp_path / f"{name}.jsonl", **{"location": words} | options)

    return sweep_here


@pytest.fixture(scope="session")
def source(words, tmp_path_factory):
    """The folder of a trained head."""
    return save(tmp_path_factory.mktemp("source"), words)


@pytest.fixture
def saved(source, tmp_path):
    """The head in a folder that the test may change."""
    return shutil.copytree(source, tmp_path / "saved")


@pytest.fixture(scope="session")
def target(tmp_path_factory):
    """Where another sample lies, that the head can be carried to."""
    root = tmp_path_factory.mktemp("target")
    for seed, split in enumerate(("train", "dev", "test"), start=10):
        plant(root, split, seed=seed, sentences=40)
    return Location(cache=root)
