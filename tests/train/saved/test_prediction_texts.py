"""Saved heads for whole texts label new ones as training scored them."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from probekit.errors import DataError, OptionError
from probekit.extraction import ExtractOptions, extract
from probekit.features import Location
from probekit.results.predictions import read_predicted
from probekit.tasks import Example
from probekit.train.saved.head import TrainedHead
from probekit.train.saved.items import as_examples, read_items
from probekit.train.saved.labelling import predict
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.tiny import SENTENCES, build

COLUMNS = {"sentence": "text", "pair": "text,text_pair", "regression": "text"}


def write_texts(folder: Path, kind: str) -> Path:
    """Write train.jsonl and dev.jsonl, some texts longer than the model reads at once."""
    folder.mkdir()
    rng = random.Random(0)
    for split, count in (("train", 40), ("dev", 16)):
        rows = []
        for _ in range(count):
            label = rng.choice(["yes", "no"])
            words = " ".join(SENTENCES[:3] if label == "yes" else SENTENCES[3:6]).split()
            rng.shuffle(words)
            words = words[: rng.randint(6, 30)]
            row = {"text": " ".join(words), "label": label}
            if kind == "pair":
                row["text_pair"] = " ".join(words[: rng.randint(1, 9)])
            if kind == "regression":
                row["label"] = len(words) / 2
            rows.append(json.dumps(row))
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def dev_texts(corpus: Path, kind: str):
    rows = [json.loads(line) for line in (corpus / "dev.jsonl").read_text("utf-8").splitlines()]
    return [(row["text"], row["text_pair"]) if kind == "pair" else row["text"] for row in rows]


@pytest.fixture(scope="module", params=COLUMNS)
def corpus(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    folder = write_texts(root / "corpus", request.param)
    model = build("bert", root / "model", max_positions=24)
    extract(
        str(model), str(folder), kind=request.param, text=COLUMNS[request.param], label="label",
        cache=root / "cache", device="cpu",
        options=ExtractOptions(
            compute_dtype="float32", keep=("cls", "mean", "last", "tokens")
        ),
    )  # fmt: skip
    return request.param, root


def test_new_texts_get_the_labels_of_training_time_scoring(corpus, tmp_path):
    kind, root = corpus
    head, pooling = ("p32", "cls") if kind == "pair" else ("extra-layers", "last")
    options = {"head": head, "pooling": pooling, "normalize": "standardize"}
    spec = TrainSpec(
        model=str(root / "model"), task=str(root / "corpus"), label="label", epochs=12, lr=5e-3,
        **options,
    )  # fmt: skip
    (record,) = sweep(
        [spec], out=tmp_path / "runs.jsonl",
        location=Location(cache=root / "cache", kind=kind, text=COLUMNS[kind]),
        save=tmp_path / "head", predictions=True,
    )  # fmt: skip
    reads = "pair" if kind == "pair" else "sentence"
    assert TrainedHead.from_pretrained(tmp_path / "head").text_kind == reads
    about, splits = read_predicted(record.predictions)
    texts, said = dev_texts(root / "corpus", kind), splits["dev"]
    found = predict(tmp_path / "head", texts)
    if kind == "regression":
        assert found == pytest.approx(said.predicted.tolist(), rel=1e-4, abs=1e-4)
        assert len(set(found)) > 4
        with pytest.raises(OptionError, match="predicts numbers, which have no probabilities"):
            predict(tmp_path / "head", ["a"], probabilities=True)
        return
    assert found == [about.classes[number] for number in said.predicted]
    assert len(set(found)) == 2 and list(said.texts) == texts
    sure = predict(tmp_path / "head", texts, probabilities=True)
    assert [one.label for one in sure] == found
    rows = [[one.probabilities[name] for name in about.classes] for one in sure]
    assert np.abs(np.array(rows) - said.probabilities).max() < 2e-3


@pytest.mark.parametrize(
    ("lines", "kind", "items"),
    [
        (["EU  rejects\n", "\n"], "tagging", [["EU", "rejects"]]),
        ([" EU  rejects\n", "\n"], "sentence", [" EU  rejects"]),
        (["EU\trejects\n"], "pair", [("EU", "rejects")]),
        (["EU\trejects\n", "a\tb"], "regression", [("EU", "rejects"), ("a", "b")]),
        (["EU rejects\n", "one"], "regression", ["EU rejects", "one"]),
        ([" \n"], "sentence", "there is no text to label"),
        ([" \n"], "tagging", "there is no text to label"),
        (["a\tb", "", "a"], "pair", r"line 3: this head labels pairs .* found 1"),
        (["a\tb\tc"], "pair", r"line 1: this head labels pairs .* found 3"),
        (["a\tb\tc"], "regression", r"line 1: this head labels pairs .* found 3"),
        (["\n", "a\tb"], "sentence", r"line 2: this head labels single texts.*; found 2\."),
        (["a b\n", "a\tb c\n"], "tagging", "line 2 has a TAB"),
    ],
)
def test_what_lines_are_for_a_head(lines, kind, items):
    if isinstance(items, list):
        assert read_items(lines, kind) == items
        return
    with pytest.raises(DataError, match=items):
        read_items(lines, kind)


@pytest.mark.parametrize(
    ("texts", "kind", "example"),
    [
        (["EU rejects"], "tagging", {"words": ("EU", "rejects")}),
        ([("a", "b")], "pair", {"text": "a", "text_pair": "b"}),
        (["a b"], "sentence", {"text": "a b"}),
        ([("a", "b")], "regression", {"text": "a", "text_pair": "b"}),
        (["a", ("b", "c")], "regression", r"text-2: single texts and pairs are mixed"),
        ([("a", "b")], "sentence", r"text-1: this head labels single texts; found 2 in a"),
        (["a"], "pair", r"text-1: this head labels pairs of texts; found one"),
        ([("a", "b", "c")], "pair", r"text-1: expected a pair of texts; found 3 texts"),
    ],
)
def test_texts_become_examples(texts, kind, example):
    if isinstance(example, dict):
        assert as_examples(texts, kind) == [Example(id="text-1", **example)]
        return
    with pytest.raises(DataError, match=example):
        as_examples(texts, kind)
