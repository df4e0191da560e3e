"""Files that an earlier version wrote are read as they were: entries, labels, records, saved heads.

``frozen.tar.gz`` was written at the end of November 2026, before the structure of the package
changed, by ``python -m tests.test_frozen``. It is never written again.
"""

import json
import os
import sys
import tarfile
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from probekit import load_records
from probekit.base.fingerprint import digest
from probekit.cli.app import app
from probekit.extraction.maintenance import check_chunks
from probekit.results.predictions import read_predicted
from probekit.store.checksums import read_checksums
from probekit.store.entry import Entry, list_entries
from tests.cli.console import done
from tests.faults.world import KIND, TEXTS, write_texts
from tests.store import synthetic

ARCHIVE = Path(__file__).with_name("frozen.tar.gz")
STEPS = ("--epochs", "2", "--lr", "0.01", "--protocol", "steps.toml")
CACHES = {"zarr": (), "hdf5": ("--format", "hdf5"), "int8": ("--dtype", "int8")}
WRITTEN = [
    *(("extract", *TEXTS, *KIND, "--cache", name, *options) for name, options in CACHES.items()),
    ("train", *TEXTS, "--head", "last,p32", "--shots", "8,16", "--seeds", "2", "--cache", "zarr"),
    ("train", *TEXTS, "--head", "dwatt", *STEPS, "--save", "head", "--cache", "zarr"),
    ("depth", *TEXTS, "--out", "runs/depth.jsonl", "--predictions", "--cache", "hdf5"),
    *(
        ("train", *TEXTS, "--method", method, "--head", "mean", *STEPS, "--cache", "zarr",
         "--out", "runs/tuned.jsonl", "--save", f"run-{method}")
        for method in ("lora", "bitfit")
    ),
]  # fmt: skip
"""The commands that wrote the files; then what they say was noted, in ``said.json``."""


def said() -> dict[str, object]:
    """Return what the files in this folder say."""
    caches = {
        f"{name} {folder.split}": {
            array: np.abs(rows.read(slice(None)).double().numpy()).sum((0, 2)).round(6).tolist()
            for array, rows in sorted(Entry.open(folder.path).arrays.items())
        }
        for name in CACHES
        for folder in list_entries(Path(name))
    }
    records = sorted(load_records("runs"), key=lambda one: one.key)
    predicted = {
        path.name: {split: one.ids for split, one in read_predicted(path)[1].items()}
        for path in sorted(Path("runs").glob("*/*.parquet"))
    }
    scores = {one.key: [one.head, one.depth, one.method, one.eval_score] for one in records}
    return {"rows": caches, "scores": scores, "predicted": predicted}


BYTES = {
    ("zarr", "float16"): "cdc6ae4693927943f02a1cf2faf4ce6aa628d5a647cc6ef64467db97f9ba8ef5",
    ("hdf5", "bfloat16"): "3c9b58a026bab8be013b1355556aace5018c57f7622c999d5887a1ca37867bee",
    ("zarr", "int8"): "fc4ced2fcf827c3a600c4d028a6acd7a1c0f9bbcd1101fb24e8715f52646be48",
}
"""Digest of the checksums of all chunks of an entry with every awkward size in it."""


@pytest.mark.parametrize(("backend", "dtype"), BYTES)
def test_the_bytes_of_entries_are_what_they_were(tmp_path, backend, dtype):
    entry = synthetic.build(tmp_path / "root" / "tiny" / "demo" / "train-00000000", backend, dtype)
    chunks = sorted(astuple(one) for one in read_checksums(entry.path, entry.manifest).values())
    assert digest(chunks) == BYTES[backend, dtype]


@pytest.fixture
def frozen(tmp_path, monkeypatch):
    """The folder of the files, which is the current one."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "steps.toml").write_text("batch_size = 8\n")
    monkeypatch.chdir(tmp_path)
    return json.loads((tmp_path / "said.json").read_text())


def test_they_say_what_they_said(frozen):
    assert json.loads(json.dumps(said())) == frozen["said"]


def test_no_file_of_an_entry_is_another(frozen):
    assert sum(check_chunks(one.path) for name in CACHES for one in list_entries(Path(name))) > 0


@pytest.mark.parametrize("saved", ["head", "run-lora", "run-bitfit"])
def test_saved_runs_predict_what_they_predicted(frozen, saved):
    assert predictions(saved) == pytest.approx(frozen["predictions"][saved], abs=1e-4)


def test_what_is_recorded_is_not_trained_again(frozen):
    before = Path("runs/tuned.jsonl").read_bytes()
    for words in WRITTEN[:6]:
        done(*words)
    done(*(one for one in WRITTEN[6] if one not in ("--save", "run-lora")))
    assert Path("runs/tuned.jsonl").read_bytes() == before
    assert json.loads(json.dumps(said())) == frozen["said"]


def predictions(saved: str) -> list[float]:
    """Return what a saved run says of the test split: the probability of a class."""
    lines = done("predict", saved, "texts/test.jsonl", "--json").out.splitlines()
    return [json.loads(line)["probabilities"]["c1"] for line in lines]


def write() -> None:
    """Write all files in the current folder, and pack them."""
    write_texts(Path())
    for words in WRITTEN:
        app([*words], standalone_mode=False)
    saved = {name: predictions(name) for name in ("head", "run-lora", "run-bitfit")}
    Path("said.json").write_text(json.dumps({"said": said(), "predictions": saved}))
    with tarfile.open(ARCHIVE, "w:gz") as archive:
        for path in sorted(Path().iterdir()):
            archive.add(path, filter=lambda one: None if one.name.endswith(".lock") else one)


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    write()
