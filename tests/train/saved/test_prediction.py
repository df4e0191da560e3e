"""Saved heads label new words and texts as training scored them."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from probekit.backbone import read_arrays
from probekit.errors import BackboneError, DataError, OptionError, StateRangeError
from probekit.extraction import ExtractOptions, extract
from probekit.features import Location
from probekit.results.predictions import read_predicted
from probekit.tasks import Example
from probekit.train.saved.head import TrainedHead, as_examples, read_items
from probekit.train.saved.labelling import predict
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.tiny import SENTENCES, build


def write_corpus(folder: Path) -> Path:
    folder.mkdir()
    rng = random.Random(0)
    for split, count in (("train", 24), ("dev", 12)):
        blocks = []
        for _ in range(count):
            words = rng.choice(SENTENCES).split()[: rng.randint(2, 12)]
            rng.shuffle(words)
            # A word that the tokenizer deletes must keep its place.
            words.insert(rng.randrange(len(words)), "\u200b")
            blocks.append("\n".join(f"{w} {'B-UP' if w[0].isupper() else 'O'}" for w in words))
        (folder / f"{split}.conll").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=["bert", "llama"])
def trained(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    model = build(request.param, root / "model", max_positions=24)
    corpus = write_corpus(root / "corpus")
    extract(
        str(model), str(corpus), cache=root / "cache", device="cpu",
        options=ExtractOptions(compute_dtype="float32"),
    )  # fmt: skip
    spec = TrainSpec(model=str(model), task=str(corpus), head="p32", epochs=5)
    (record,) = sweep(
        [replace(spec, normalize="standardize")], out=root / "runs.jsonl",
        location=Location(cache=root / "cache"), save=root / "head", predictions=True,
    )  # fmt: skip
    return root, corpus, record


def dev_words(corpus: Path) -> list[list[str]]:
    blocks = (corpus / "dev.conll").read_text("utf-8").strip().split("\n\n")
    return [[line.split(" ")[0] for line in block.split("\n")] for block in blocks]


def test_new_text_gets_the_labels_of_training_time_scoring(trained):
    root, corpus, record = trained
    expected = pq.read_table(record.predictions)["predicted"].to_pylist()
    assert len({label for labels in expected for label in labels}) == 2
    assert predict(root / "head", dev_words(corpus)) == expected


def test_a_model_over_several_places_says_the_same(trained):
    pytest.importorskip("accelerate", reason="the optional extra device-map is not installed")
    root, corpus, _ = trained
    words = dev_words(corpus)[:3]
    bert = root.name.startswith("bert")
    places = {"embeddings" if bert else "embed_tokens": "disk"}
    rest = ("encoder",) if bert else ("layers", "norm", "rotary_emb")
    places |= dict.fromkeys(rest, "cpu")
    assert predict(root / "head", words, device_map=places) == predict(root / "head", words)
    with pytest.raises(OptionError, match="--device cpu were both given"):
        predict(root / "head", words, device="cpu", device_map="auto")


@pytest.mark.parametrize("decoder", [None, "crf"])
def test_new_text_gets_the_probabilities_of_the_side_file(trained, tmp_path, decoder):
    root, corpus, record = trained
    folder = root / "head"
    if decoder:  # by the words of each sentence together
        options = {"head": "last", "decoder": decoder, "epochs": 3}
        spec = TrainSpec(model=str(root / "model"), task=str(corpus), **options)
        folder = tmp_path / "head"
        (record,) = sweep(
            [spec], out=tmp_path / "runs.jsonl", location=Location(cache=root / "cache"),
            save=folder, predictions=True,
        )  # fmt: skip
    about, splits = read_predicted(record.predictions)
    found = predict(folder, dev_words(corpus), probabilities=True)
    expected = splits["dev"].probabilities
    rows = [row for text in found for row in text.probabilities]
    ordered = np.array([[row[name] for name in about.classes] for row in rows])
    assert np.abs(ordered - expected).max() < 1e-3
    assert np.abs(ordered.sum(1) - 1).max() < 1e-9
    assert all(list(row.values()) == sorted(row.values(), reverse=True) for row in rows)
    assert [text.label for text in found] == predict(folder, dev_words(corpus))
    (none, one) = predict(folder, [[], ["EU"]], probabilities=True)
    assert (none.label, none.probabilities) == ([], []) and len(one.label) == 1
    if not decoder:
        assert [next(iter(row)) for row in rows] == [tag for text in found for tag in text.label]


def test_another_model_is_refused(trained, tmp_path):
    root, _, _ = trained
    other = build("bert", tmp_path / "other", seed=1, max_positions=24)
    with pytest.raises(
        BackboneError, match=r"not the one that the head was made with .* Give the right model"
    ):
        predict(root / "head", [["a"]], model=str(other))


def test_states_that_the_cache_could_not_store_are_refused(trained, monkeypatch):
    root, corpus, _ = trained

    def too_large(*arguments, **options):
        rows = read_arrays(*arguments, **options)
        rows["words"][len(words[0]), 1] = torch.tensor(1e6)
        return rows

    words = dev_words(corpus)
    monkeypatch.setattr("probekit.train.saved.labelling.read_arrays", too_large)
    with pytest.raises(
        StateRangeError, match=r"text-1 to .* stored in float16 .* --dtype bfloat16"
    ):
        predict(root / "head", words)


def test_the_model_of_a_hub_commit_may_lie_in_a_folder_now(trained):
    root, corpus, _ = trained
    head = TrainedHead.from_pretrained(root / "head")
    expected = predict(head, dev_words(corpus))
    local = head.config["model"]["name"]
    head.config["model"] |= {"name": "org/name", "source": "hub", "revision": "0" * 40}
    assert predict(head, dev_words(corpus), model=local) == expected


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
