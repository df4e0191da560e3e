"""Tiny models on disk, one folder per kind for the whole session."""

import functools

import pytest

from tests import tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """Return the folder of a tiny model of a kind (built once; do not change it)."""
    root = tmp_path_factory.mktemp("tiny")

    @functools.cache
    def build(kind):
        return tiny.build(kind, root / kind)

    return build
