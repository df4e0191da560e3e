"""What is pushed and pulled again is the same entry, byte for byte, and needs no model."""

import shutil

import pytest
import torch

from probekit.extraction.maintenance import Reduction, check_chunks
from probekit.extraction.transport import Pull, Push, transport_form, upload
from probekit.store.backends import zarr_folder
from probekit.store.layout import labels_folder
from tests.cli.console import done
from tests.extraction.transport.conftest import REPO, stored
from tests.planted import plant
from tests.store.synthetic import folder_bytes


def features(hub):
    """Bytes of layer files that were downloaded, by their names in the entry."""
    return {
        name.partition("/features/")[2]: size
        for name, size in hub.sent.items()
        if "/features/" in name
    }


BACKENDS = [("zarr", "float32"), ("zarr", "int8"), ("hdf5", "float16"), ("hdf5", "int8")]


CUT = [(*one, False) for one in BACKENDS] + [("zarr", "float32", True), ("hdf5", "int8", True)]


@pytest.mark.parametrize(("backend", "dtype", "cut"), CUT)
def test_an_entry_comes_back_as_it_was(hub, cache, tmp_path, monkeypatch, backend, dtype, cut):
    entry = stored(tmp_path / "cache", backend, dtype)
    if cut:
        monkeypatch.setattr(transport_form, "FILE_BYTES", 1)
        monkeypatch.setattr(upload, "_IN_MEMORY", 0)
    Push.of([entry.path], REPO).apply()
    (pulled,) = Pull.of(REPO, cache).apply()
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)
    assert pulled.path.relative_to(cache) == entry.path.relative_to(tmp_path / "cache")
    assert check_chunks(pulled.path) > 0
    files = features(hub)
    assert sum(files.values()) == sum(spec.nbytes for spec in entry.manifest.arrays)
    chunks = sum(spec.n_row_chunks * len(spec.layers) for spec in entry.manifest.arrays)
    assert len(files) == (chunks if cut else 5)


def test_labels_come_along(hub, made, cache):
    Push.of([made["train"].path], REPO).apply()
    (pulled,) = Pull.of(REPO, cache).apply()
    assert folder_bytes(pulled.path) == folder_bytes(made["train"].path)
    ours, theirs = (folder_bytes(labels_folder(e.path)) for e in (pulled, made["train"]))
    assert ours == {name: data for name, data in theirs.items() if name.startswith("train")} != {}
    shutil.rmtree(labels_folder(pulled.path))  # as a kill before they are written leaves it
    Pull.of(REPO, cache).apply()
    assert folder_bytes(labels_folder(pulled.path)) == ours


def test_shards_come_back_as_they_were(hub, tmp_path, cache, monkeypatch):
    monkeypatch.setattr(zarr_folder, "_MOST_FILES", 1)
    entry = plant(tmp_path / "cache", sentences=20)
    assert {"c.0.0.0", "c.1.0.0"} <= {f.name for f in entry.path.glob("features.zarr/words/*")}
    assert not list(entry.path.glob("features.zarr/words/c.*.1.0"))
    Push.of([entry.path], REPO).apply()
    (pulled,) = Pull.of(REPO, cache).apply()
    assert folder_bytes(pulled.path) == folder_bytes(entry.path)


@pytest.mark.parametrize(("backend", "dtype"), BACKENDS)
def test_two_layers_are_two_layers_bytes(hub, cache, backend, dtype, tmp_path):
    entry = stored(tmp_path / "cache", backend, dtype)
    Push.of([entry.path], REPO).apply()
    planned = Pull.of(REPO, cache, layers="0,2", arrays=["words"])
    promised = sum(planned.sizes.values())
    hub.sent.clear()
    (pulled,) = planned.apply()
    layer = entry.manifest.array("words").nbytes // 4
    assert features(hub) == {
        "words/layer-000-000.bin": layer,
        "words/layer-002-000.bin": layer,
    }
    assert hub.sent.total() == promised, "the small files, and nothing else"
    states = entry.arrays["words"].read(slice(None), [0, 2]).clone()
    assert torch.equal(pulled.arrays["words"].read(slice(None)), states)
    reduced = Reduction.of(entry.path, layers="1,4", arrays=["tokens"]).apply()
    assert pulled.path.name == reduced.path.name
    assert folder_bytes(pulled.path) == folder_bytes(reduced.path)


def test_the_last_layer_brings_its_subwords(hub, tmp_path, cache):
    entry = stored(tmp_path / "cache")
    Push.of([entry.path], REPO).apply()
    (last,) = Pull.of(REPO, cache, layers="-1").apply()
    assert {name: array.layers for name, array in last.arrays.items()} == {
        "words": (4,), "tokens": (4,),
    }  # fmt: skip
    (tokens,) = Pull.of(REPO, cache, arrays=["tokens"]).apply()
    assert list(tokens.arrays) == ["tokens"] and set(tokens.examples.row_start.tolist()) == {-1}
    assert len({last.path, tokens.path, Pull.of(REPO, cache).entries[0].path}) == 3


def test_splits_lie_side_by_side(hub, tmp_path, cache, repo):
    train, dev = (stored(tmp_path / "cache", split=split) for split in ("train", "dev"))
    Push.of([train.path], REPO).apply()
    Push.of([dev.path], REPO).apply()
    (pulled,) = Pull.of(REPO, cache, splits=["dev"]).apply()
    assert pulled.manifest == dev.manifest
    (pulled,) = Pull.of(REPO, cache, entry=train.manifest.key[:5]).apply()
    assert pulled.manifest == train.manifest
    hub.sent.clear()
    assert Pull.of(REPO, cache).sizes == {}
    assert len(Pull.of(REPO, cache).apply()) == 2
    assert not features(hub), "what is there is not loaded again"
    card = (repo / "README.md").read_text()
    assert "| demo | train | 5 |" in card and "| demo | dev | 5 |" in card


def test_a_branch_is_pushed_and_pulled(hub, tmp_path, cache):
    train, dev = (stored(tmp_path / "cache", split=split) for split in ("train", "dev"))
    Push.of([dev.path], REPO).apply()
    Push.of([train.path], REPO, revision="more").apply()
    assert [e.manifest.split for e in Pull.of(REPO, cache).entries] == ["dev"]
    found = Pull.of(REPO, cache, revision="more").entries
    assert [e.manifest.split for e in found] == ["dev", "train"]


def test_scores_are_those_of_the_entries_that_were_pushed(hub, made, cache, tmp_path):
    Push.of([entry.path for entry in made.values()], REPO).apply()
    pulled = {entry.manifest.split: entry for entry in Pull.of(REPO, cache).apply()}
    rows = []
    for number, entries in enumerate((made, pulled)):
        out = tmp_path / f"{number}.jsonl"
        options = ("--head", "last", "--epochs", "2", "--json", "--out", out)
        rows += done("train", entries["train"].path, *options).rows
    assert rows[0]["scores"] == rows[1]["scores"] != {}
    assert rows[0]["key"] == rows[1]["key"]
