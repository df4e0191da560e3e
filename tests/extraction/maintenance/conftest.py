"""Caches with an entry each, by form, and how to damage what is in one."""

import shutil
from dataclasses import replace

import pytest

from probekit.extraction.maintenance import plan_conversion
from probekit.store.checksums import other_files, places_of
from probekit.store.entry import Entry, list_entries
from tests.extraction.conftest import make_small
from tests.extraction.extracted import run as extract

FORMS = [("zarr", "int8"), ("hdf5", "bfloat16"), ("hdf5", "int8")]


@pytest.fixture(scope="session")
def inputs(bert, corpus):
    """A model and a corpus, as `extract` takes them."""
    return bert, corpus


@pytest.fixture(scope="session")
def caches(inputs, tmp_path_factory):
    """Caches with one entry each, in small units, by format and dtype; not to be changed."""
    root = tmp_path_factory.mktemp("caches")
    made = {("zarr", "float32"): root / "zarr-float32"}
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch, 10_000)
        entry = extract(*inputs, root / "zarr-float32", keep=("words", "tokens"))
        for format, dtype in [*FORMS, ("hdf5", "float32")]:
            made[format, dtype] = cache = root / f"{format}-{dtype}"
            plan_conversion(entry.path, format=format, dtype=dtype, root=cache).apply()
    return made


@pytest.fixture
def cache(caches, tmp_path):
    """A cache of one's own."""
    return shutil.copytree(caches["zarr", "float32"], tmp_path / "cache")


def entry_in(cache):
    (folder,) = list_entries(cache)
    return folder.path


def flip(file, at):
    data = bytearray(file.read_bytes())
    data[at % len(data)] ^= 1
    file.write_bytes(data)


def reseal(path):
    """Write a manifest for an entry as it is now."""
    manifest = Entry.open(path).manifest
    files = other_files(path, places_of(path, manifest.backend, manifest.arrays).values())
    (path / "manifest.json").write_text(replace(manifest, files=files).to_json())
