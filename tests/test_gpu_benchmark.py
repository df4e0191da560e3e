"""The benchmark of GPUs, at small size: on the CPU, and on a GPU that is pretended."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import tiny
from tests.pretended_gpu import pretended_gpu

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def words(tmp_path, monkeypatch):
    """The options that name a tiny model and made-up texts; each run ends after one round."""
    monkeypatch.syspath_prepend(str(FOLDER))
    tiny.build("bert", tmp_path / "models" / "minilm-l6")
    corpus, texts = tmp_path / "data" / "conll2003", tmp_path / "data" / "glue" / "SST-2"
    rows = [f"{word} NN I-NP {'B-LOC' if word[0].isupper() else 'O'}" for word in
            " ".join(tiny.SENTENCES).split()]  # fmt: skip
    lines = [line for n, row in enumerate(rows) for line in ([row, ""] if n % 3 == 2 else [row])]
    corpus.mkdir(parents=True)
    (corpus / "train.txt").write_text("\n".join([*lines, ""] * 4), "utf-8")
    texts.mkdir(parents=True)
    for split in ("train", "dev"):
        labelled = [f"{text}\t{n % 2}" for n, text in enumerate(tiny.SENTENCES)]
        (texts / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *labelled]), "utf-8")
    return ["--models", str(tmp_path / "models"), "--data", str(tmp_path / "data"), "--small",
            "--rounds", "1", "--json", str(tmp_path / "claims.jsonl")]  # fmt: skip


def reported(words, monkeypatch):
    """Run it; return the numbers of the claims that it wrote."""
    program, measure = (importlib.import_module(name) for name in ("gpu", "measure"))
    monkeypatch.setattr(measure, "gc", SimpleNamespace(collect=int))  # all objects of all tests
    monkeypatch.setattr(sys, "argv", ["gpu.py", *words])
    program.main()
    return [row.claim.number for row in measure.read(Path(words[-1]))]


def test_every_part_is_measured(words, monkeypatch):
    assert reported(words, monkeypatch) == [35, 42, 43, 44, 45]


def test_what_would_begin_too_late_is_left_out(words, monkeypatch, capsys):
    assert reported(["--seconds", "0", *words], monkeypatch) == []
    assert capsys.readouterr().out.count("left out") == 5


def test_the_parts_run_on_a_gpu(words, monkeypatch):
    program = importlib.import_module("gpu")
    monkeypatch.setattr(program, "PARTS", program.PARTS[:2])  # tests of fits have the others
    with pretended_gpu(monkeypatch):
        assert reported(["--device", "cuda:0", *words], monkeypatch) == [35, 42]
