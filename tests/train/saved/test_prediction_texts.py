"""Saved heads for whole texts label new ones as training scored them."""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
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


@pytest.mark.parametrize(("head", "pooling"), [("p32", "cls"), ("extra-layers", "last")])
def test_new_texts_get_the_labels_of_training_time_scoring(corpus, tmp_path, head, pooling):
    kind, root = corpus
    (record,) = sweep(
        [
            TrainSpec(
                model=str(root / "model"),
                task=str(root / "corpus"),
                label="label",
                head=head,
                pooling=pooling,
                epochs=12,
                lr=5e-3,
                normalize="standardize",
            )
        ],
        out=tmp_path / "runs.jsonl",
        location=Location(cache=root / "cache", kind=kind, text=COLUMNS[kind]),
        save=tmp_path / "head",
        predictions=True,
    )
    reads = "pair" if kind == "pair" else "sentence"
    assert TrainedHead.from_pretrained(tmp_path / "head").text_kind == reads
    table = pq.read_table(record.predictions)
    expected = [row[0] for row in table["predicted"].to_pylist()]
    found = predict(tmp_path / "head", dev_texts(root / "corpus", kind))
    if kind == "regression":
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert len(set(found)) > 4
        with pytest.raises(OptionError, match="predicts numbers, which have no probabilities"):
            predict(tmp_path / "head", ["a"], probabilities=True)
    else:
        assert found == expected
        assert len(set(found)) == 2
        texts = dev_texts(root / "corpus", kind)
        sure = predict(tmp_path / "head", texts, probabilities=True)
        assert [one.label for one in sure] == found
        about, splits = read_predicted(record.predictions)
        rows = [[one.probabilities[name] for name in about.classes] for one in sure]
        assert np.abs(np.array(rows) - splits["dev"].probabilities).max() < 2e-3
        assert list(splits["dev"].texts) == texts


def test_what_a_head_is_given():
    assert read_items(["EU  rejects\n", "\n"], "tagging") == [["EU", "rejects"]]
    assert read_items([" EU  rejects\n", "\n"], "sentence") == [" EU  rejects"]
    assert read_items(["EU\trejects\n"], "pair") == [("EU", "rejects")]
    assert read_items(["EU\trejects\n", "a\tb"], "regression") == [("EU", "rejects"), ("a", "b")]
    assert read_items(["EU rejects\n", "one"], "regression") == ["EU rejects", "one"]
    for kind in ("sentence", "tagging"):
        with pytest.raises(DataError, match="there is no text to label"):
            read_items([" \n"], kind)


@pytest.mark.parametrize(
    ("lines", "kind", "message"),
    [
        (["a\tb", "", "a"], "pair", r"line 3: expected two texts with one TAB .* found 1"),
        (["a\tb\tc"], "pair", r"line 1: expected two texts with one TAB .* found 3"),
        (["a\tb\tc"], "regression", r"line 1: expected two texts with one TAB .* found 3"),
        (["\n", "a\tb"], "sentence", r"line 2: this head labels single texts.*; found 2\."),
        (["a", "\n", "a\tb"], "regression", r"line 3: single texts and pairs are mixed"),
        (["a b\n", "a\tb c\n"], "tagging", "line 2: a TAB in it"),
    ],
)
def test_lines_that_do_not_fit_the_head(lines, kind, message):
    with pytest.raises(DataError, match=message):
        read_items(lines, kind)


def test_texts_become_examples():
    assert as_examples(["EU rejects"], "tagging") == [Example(id="text-1", words=("EU", "rejects"))]
    assert as_examples([("a", "b")], "pair") == [Example(id="text-1", text="a", text_pair="b")]
    assert as_examples(["a b"], "sentence") == [Example(id="text-1", text="a b")]
    assert as_examples([("a", "b")], "regression")[0].text_pair == "b"
    with pytest.raises(DataError, match=r"text-2: single texts and pairs are mixed"):
        as_examples(["a", ("b", "c")], "regression")
    with pytest.raises(DataError, match=r"text-1: this head labels single texts; found 2 in a"):
        as_examples([("a", "b")], "sentence")
    with pytest.raises(DataError, match=r"text-1: this head labels pairs of texts; found one"):
        as_examples(["a"], "pair")
    with pytest.raises(DataError, match=r"text-1: expected a pair of texts; found 3 texts"):
        as_examples([("a", "b", "c")], "pair")
