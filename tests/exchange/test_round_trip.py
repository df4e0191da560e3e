"""What is pushed comes back: bytes, labels, parts, scores."""

import shutil

import pytest
import torch

from probekit.exchange import Pull, remotes
from probekit.extraction.maintenance import Reduction, check_chunks
from probekit.store.backends import zarr_folder
from probekit.store.layout import labels_folder
from tests.exchange.conftest import REAL_BUCKET, URL, pull, push, stored
from tests.planted import plant
from tests.store.synthetic import folder_bytes


@pytest.fixture
def spans(monkeypatch):
    """What is read of a folder: name, first byte, bytes."""
    read, found = remotes.Folder.read, []

    def noted(self, name, start, nbytes):
        found.append((name, start, nbytes))
        return read(self, name, start, nbytes)

    monkeypatch.setattr(remotes.Folder, "read", noted)
    return found


@pytest.mark.parametrize(
    ("url", "backend", "dtype"),
    [
        ("folder", "hdf5", "float16"),
        ("bucket", "hdf5", "int8"),
        ("bucket", "zarr", "float32"),
        ("hub", "zarr", "int8"),
        pytest.param("real_bucket", "hdf5", "int8", marks=pytest.mark.bucket),
        pytest.param("real_bucket", "zarr", "float16", marks=pytest.mark.bucket),
    ],
    indirect=["url"],
)
def test_an_entry_comes_back_as_it_was(url, cache, tmp_path, backend, dtype):
    entry = stored(tmp_path / "cache", backend, dtype)
    push(entry, url)
    pulled = pull(url, cache)
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)
    assert pulled.path.relative_to(cache) == entry.path.relative_to(tmp_path / "cache")
    assert check_chunks(pulled.path) > 0


def test_labels_come_along(made, tmp_path, cache):
    there, entry = tmp_path / "there", made["train"]
    push(entry, there)
    (folder,) = there.glob("*/*/train-*")  # what is pushed is a cache
    assert folder_bytes(folder) == folder_bytes(entry.path) and check_chunks(folder) > 0
    pulled = pull(there, cache)
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)
    ours, theirs = (folder_bytes(labels_folder(e.path)) for e in (pulled, entry))
    assert ours == {name: data for name, data in theirs.items() if name.startswith("train")} != {}
    shutil.rmtree(labels_folder(pulled.path))  # as a kill before they are written leaves it
    pull(there, cache)
    assert folder_bytes(labels_folder(pulled.path)) == ours


def test_shards_come_back_as_they_were(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(zarr_folder, "_MOST_FILES", 1)
    entry = plant(tmp_path / "cache", sentences=20)
    assert {"c.0.0.0", "c.1.0.0"} <= {f.name for f in entry.path.glob("features.zarr/words/*")}
    assert not list(entry.path.glob("features.zarr/words/c.*.1.0"))
    push(entry, tmp_path / "there")
    assert folder_bytes(pull(tmp_path / "there", cache).path) == folder_bytes(entry.path)
    part = pull(tmp_path / "there", cache, layers="1")
    rows = part.arrays["words"].read(slice(None))
    assert torch.equal(rows, entry.arrays["words"].read(slice(None), [1]))


@pytest.mark.parametrize(("backend", "dtype"), [("zarr", "int8"), ("hdf5", "float16")])
def test_two_layers_are_two_layers_bytes(spans, cache, backend, dtype, tmp_path):
    entry = stored(tmp_path / "cache", backend, dtype)
    push(entry, tmp_path / "there")
    planned = Pull.of(tmp_path / "there", cache, layers="0,2", arrays=["words"])
    (promised,) = planned.sizes.values()
    spans.clear()
    (pulled,) = planned.apply()
    layers = entry.manifest.array("words").nbytes // 2
    if backend == "zarr":
        chunks = [nbytes for name, _, nbytes in spans if "/c." in name]
        assert sum(chunks) == layers, "the chunks of these two, once"
        assert sum(nbytes for _, _, nbytes in spans) == promised
    states = entry.arrays["words"].read(slice(None), [0, 2]).clone()
    assert torch.equal(pulled.arrays["words"].read(slice(None)), states)
    reduced = Reduction.of(entry.path, layers="1,4", arrays=["tokens"]).apply()
    assert pulled.path.name == reduced.path.name
    assert folder_bytes(pulled.path) == folder_bytes(reduced.path)


@pytest.mark.parametrize("url", ["hub", "bucket", REAL_BUCKET], indirect=True)
def test_the_last_layer_brings_its_subwords(url, tmp_path, cache):
    push(stored(tmp_path / "cache"), url)
    last = pull(url, cache, layers="-1")
    assert {name: array.layers for name, array in last.arrays.items()} == {
        "words": (4,), "tokens": (4,),
    }  # fmt: skip
    tokens = pull(url, cache, arrays=["tokens"])
    assert list(tokens.arrays) == ["tokens"] and set(tokens.examples.row_start.tolist()) == {-1}
    (whole,) = Pull.of(url, cache).sizes
    assert len({last.path, tokens.path, whole}) == 3


def test_splits_lie_side_by_side(tmp_path, cache, spans):
    there = tmp_path / "there"
    train, dev = (stored(tmp_path / "cache", split=split) for split in ("train", "dev"))
    push(train, there)
    push(dev, there)
    assert pull(there, cache, splits=["dev"]).manifest == dev.manifest
    assert pull(there, cache, entry=train.manifest.key[:5]).manifest == train.manifest
    assert set(Pull.of(there, cache).sizes.values()) == {0}
    spans.clear()
    assert len(Pull.of(there, cache).apply()) == 2
    assert {name.rpartition("/")[2] for name, _, _ in spans} == {"manifest.json"}


def test_a_branch_is_pushed_and_pulled(hub, tmp_path, cache, repo):
    train, dev = (stored(tmp_path / "cache", split=split) for split in ("train", "dev"))
    assert push(dev, URL).startswith(f"{hub.url}/datasets/me/states/commit/")
    assert "| demo | dev | 5 |" in (repo / "README.md").read_text()
    push(train, f"{URL}@more")
    assert [path.name[:4] for path in Pull.of(URL, cache).sizes] == ["dev-"]
    found = Pull.of(f"{URL}@more", cache).sizes
    assert [path.name.rpartition("-")[0] for path in found] == ["dev", "train"]
    card = repo.with_name("states@more") / "README.md"
    assert "| demo | train | 5 |" in card.read_text() and "| demo | dev | 5 |" in card.read_text()
