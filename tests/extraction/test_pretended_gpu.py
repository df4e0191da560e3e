"""Extraction and prediction on a GPU that is pretended give what the CPU gives."""

import torch

from probekit.extraction import ExtractOptions, extract
from probekit.features import Location
from probekit.train.saved.labelling import predict
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.specs import TrainSpec
from tests import tiny
from tests.extraction.extracted import all_rows
from tests.pretended_gpu import pretended_gpu

TEXTS = [sentence.split() for sentence in tiny.SENTENCES]
TAGGED = [(words, ["B" if word[0].isupper() else "O" for word in words]) for words in TEXTS]
PLAIN = ExtractOptions(compute_dtype="float32", dtype="float32", batch_tokens=128)


def extracted(model, cache, device):
    splits = {"train": TAGGED, "dev": TAGGED[:3]}
    how = {"task": "mine", "examples": splits, "cache": cache, "options": PLAIN}
    return extract(str(model), device=device, **how)[0]


def test_rows_are_those_of_the_cpu(tmp_path, monkeypatch):
    model = tiny.build("deberta-v2", tmp_path / "model")
    expected = extracted(model, tmp_path / "cpu", "cpu")
    with pretended_gpu(monkeypatch):
        there = extracted(model, tmp_path / "gpu", "cuda:0")
    assert there.manifest.extra["computed"][0]["device"] == "cuda:0"
    assert there.manifest.key == expected.manifest.key
    torch.testing.assert_close(all_rows(there), all_rows(expected), rtol=1e-4, atol=1e-4)


def test_labels_are_those_of_the_cpu(tmp_path, monkeypatch):
    model = tiny.build("bert", tmp_path / "bert")
    extracted(model, tmp_path / "cache", "cpu")
    heads = {head: tmp_path / head for head in ("p32", "extra-layers")}
    for head, folder in heads.items():
        spec = TrainSpec(model=str(model), task="mine", head=head, epochs=1)
        fit(spec, location=Location(cache=tmp_path / "cache"), device="cpu", save=folder)
    expected = [predict(folder, TEXTS, device="cpu") for folder in heads.values()]
    with pretended_gpu(monkeypatch):
        assert [predict(folder, TEXTS, device="cuda:0") for folder in heads.values()] == expected
