"""A trained head, and features of another sample that it can be carried to."""

import shutil

import pytest

from probekit.features import Location
from tests.planted import plant, plant_all
from tests.train.sweeps.starts import save


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A trained head, and the features of another sample that it can be carried to."""
    root = tmp_path_factory.mktemp("source")
    saved = save(root, Location(cache=plant_all(root / "cache")))
    target = root / "target"
    for seed, split in enumerate(("train", "dev", "test"), start=10):
        plant(target, split, seed=seed, sentences=40)
    return saved, Location(cache=target)


@pytest.fixture
def saved(source, tmp_path):
    """The head in a folder of the test's own."""
    return shutil.copytree(source[0], tmp_path / "saved")


@pytest.fixture(scope="module")
def location(source):
    """Where the other sample lies."""
    return source[1]
