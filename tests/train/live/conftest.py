"""Runs that several files read."""

import pytest

from tests.train.live.trained_runs import Runs


@pytest.fixture(scope="module", params=["bert", "llama"])
def runs(request, tmp_path_factory):
    return Runs(request.param, tmp_path_factory.mktemp(request.param))
