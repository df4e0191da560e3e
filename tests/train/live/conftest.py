"""Runs that several files read."""

import functools

import pytest

from tests.train.live.trained_runs import Runs


@pytest.fixture(scope="session")
def runs_of(tmp_path_factory):
    """Return the runs of a family, which are made once."""
    return functools.cache(lambda family: Runs(family, tmp_path_factory.mktemp(family)))


@pytest.fixture
def bert(runs_of):
    """The runs of one family."""
    return runs_of("bert")
