"""A small corpus, caches of its entries by form, and units so small that an entry has several."""

import shutil

import pytest

from probekit.extraction.maintenance import plan_conversion
from probekit.store.entry import Entry, list_entries
from tests import tiny
from tests.extraction.conftest import small_units
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import run as extract

__all__ = ["small_units"]

FORMS = [
    ("zarr", "float16"), ("zarr", "int8"), ("hdf5", "bfloat16"), ("hdf5", "int8"),
    ("hdf5", "float32"),
]  # fmt: skip


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    return tiny.build("bert", folder / "bert"), write_corpus(folder / "corpus", sentences=24)


@pytest.fixture(scope="session")
def caches(inputs, tmp_path_factory):
    """Caches with one entry each, in small units, by format and dtype; not to be changed."""
    root, found = tmp_path_factory.mktemp("caches"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("probekit.extraction.units.UNIT_BYTES", 6_000)
        patch.setattr("probekit.extraction.plan.chunk_rows_for", lambda dim, dtype, rows: 16)
        keep = ("words", "tokens")
        entry = extract(*inputs, root / "zarr-float32", keep=keep)
        found["zarr", "float32"] = root / "zarr-float32"
        for format, dtype in FORMS:
            found[format, dtype] = cache = root / f"{format}-{dtype}"
            plan_conversion(entry.path, format=format, dtype=dtype, root=cache).apply()
    return found


@pytest.fixture
def cache(caches, tmp_path):
    """A cache of one's own."""
    return shutil.copytree(caches["zarr", "float32"], tmp_path / "cache")


def entry_in(cache):
    (folder,) = list_entries(cache)
    return folder.path


def flip(file, at):
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def reseal(path):
    """Write a manifest for an entry as it is now."""
    from dataclasses import replace

    from probekit.store.checksums import other_files, places_of

    manifest = Entry.open(path).manifest
    files = other_files(path, places_of(path, manifest.backend, manifest.arrays).values())
    (path / "manifest.json").write_text(replace(manifest, files=files).to_json())
