"""Texts that occur twice: told, recorded, shown below tables, and left out by an option."""

import json

import pytest

from probekit import Location, TrainSpec, load_records, open_features
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run_views import sample
from tests.cli.console import done, refused

KIND = ("--kind", "sentence", "--label", "label")
TRAIN = [f"text number {n} of train" for n in range(20)]
COPIED = {
    "train": [*TRAIN, "TEXT number 3, of train!", "Straße", "text number 3 of train"],
    "dev": ["text number 3 of train", "text number 5 of train .", "STRASSE", "dev 1", "dev 2"],
    "test": ["test 1", "dev 1", "text number 7 of train", "test 2"],
}
"""Of dev one text occurs in train word for word, and three do normalised; of test one, and
another one in dev. Left of train are all but the numbers 3 (three times), 5, 7 and the street."""

LEFT = [n for n in range(20) if n not in (3, 5, 7)]


def write(folder, texts):
    """Write splits of texts, whose labels take turns; columns of a pair are divided by a bar."""
    folder.mkdir(parents=True)
    for split, own in texts.items():
        rows = [
            dict(zip(("text", "text_pair"), text.split("|"), strict=False)) | {"label": "ab"[n % 2]}
            for n, text in enumerate(own)
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("copied") / "copied", COPIED)


@pytest.fixture(scope="module")
def extracted(data, bert, tmp_path_factory):
    """The cache, and what extraction said."""
    root = tmp_path_factory.mktemp("cache")
    return root, done("extract", bert, data, *KIND, "--cache", root).err


@pytest.fixture
def train(data, bert, extracted):
    return ("train", bert, data, *KIND[2:], "--cache", extracted[0], "--head", "last")


def test_extraction_says_what_splits_have_in_common(extracted):
    _, said = extracted
    lines = [line for line in said.splitlines() if " in train" in line or " in dev" in line]
    assert lines == [
        "dev: 3 of 5 texts (60.0 %) are in train too, 1 of them word for word.",
        "test: 1 of 4 texts (25.0 %) are in train too, 1 of them word for word.",
        "test: 1 of 4 texts (25.0 %) are in dev too, 1 of them word for word.",
    ]


def test_splits_that_are_there_are_compared_with(data, bert, tmp_path):
    extract = ("extract", bert, data, *KIND, "--cache", tmp_path / "cache")
    assert " in train" not in done(*extract, "--split", "train").err
    assert "of 5 texts (60.0 %) are in train" in done(*extract, "--split", "dev").err
    others = done(*extract, "--split", "test", "--keep", "mean").err
    assert " in train" not in others  # the entries of train hold other rows


def test_records_hold_counts_and_tables_and_pages_say_them(train, tmp_path):
    out = tmp_path / "runs.jsonl"
    shown = done(*train, "--out", out).out
    (record,) = load_records(out)
    assert record.duplicates == {
        "dev": {"train": {"texts": 5, "exact": 1, "normalised": 3}},
        "test": {
            "train": {"texts": 4, "exact": 1, "normalised": 1},
            "dev": {"texts": 4, "exact": 1, "normalised": 1},
        },
    }
    line = "60.0 % of dev texts and 25.0 % of test texts are in train too; leave them out with"
    assert line in shown and line in done("table", out).out
    (chosen,) = done(*train, "--select", "cv:3", "--json").rows
    assert chosen["duplicates"]["train"] == {"train": {"texts": 23, "exact": 2, "normalised": 3}}


def test_the_option_leaves_out_just_these(train, data, bert, extracted, tmp_path):
    out = tmp_path / "runs.jsonl"
    done(*train, "--out", out)
    told = done(*train, "--out", out, "--drop-duplicates")
    assert "--drop-duplicates leaves out 6 of 23 train texts" in told.err
    assert "are in train too" not in told.out
    plain, own = load_records(out)
    assert own.key != plain.key and own.protocol == "full, without duplicates"
    assert (own.seen["examples"], own.seen["of_examples"]) == (17, 17)
    assert {counts["train"]["normalised"] for counts in own.duplicates.values()} == {0}
    spec = TrainSpec(model=str(bert), task=str(data), head="last", label="label",
                     drop_duplicates=True)  # fmt: skip
    place = Location(cache=extracted[0], kind="sentence")
    splits = open_features(str(bert), str(data), "label", place, drop_duplicates=True)
    run = resolve(spec, splits)
    assert run.options.key == own.key
    texts = splits.entries["train"].examples.texts
    assert [texts[n][0] for n in sample(run.spec, splits)] == [TRAIN[n] for n in LEFT]
    assert splits.view("dev").n_examples == 5  # what is reported stays whole


def test_it_holds_for_shots_and_what_is_held_out(train, tmp_path):
    drop = (*train, "--drop-duplicates", "--json")
    (shots,) = done(*drop, "--shots", "8").rows
    assert (shots["protocol"], shots["seen"]["examples"]) == ("few-shot, without duplicates", 16)
    assert "largest K here is 8" in refused(*drop[:-1], "--shots", "9")
    (held,) = done(*drop, "--hold-out", "0.25").rows
    assert held["protocol"] == "full, hold-out 0.25, without duplicates"
    assert held["seen"]["examples"] == 13


def test_equal_texts_of_train_are_never_divided(bert, tmp_path):
    """Each text of train occurs twice, so folds that divide would see what they judge."""
    texts = {"train": [f"{word} text {n}" for n in range(8) for word in ("a", "A,")], "dev": ["x"]}
    data, cache = write(tmp_path / "twice", texts), tmp_path / "cache"
    done("extract", bert, data, *KIND, "--cache", cache)
    own = ("train", bert, data, *KIND[2:], "--cache", cache, "--head", "last", "--json")
    (kept,) = done(*own, "--select", "cv:4", "--drop-duplicates").rows
    assert "train" not in kept["duplicates"]
    sizes = {name: kept["seen"][name] for name in ("groups", "largest_group", "in_groups")}
    assert sizes == {"groups": 8, "largest_group": 2, "in_groups": 16}
    (held,) = done(*own, "--hold-out", "0.25", "--drop-duplicates").rows
    assert held["duplicates"]["held-out"]["train"]["normalised"] == 0


def test_pairs_count_as_pairs_and_by_each_text(bert, tmp_path):
    train = [f"first {n}|second {n}" for n in range(12)]
    texts = {"train": [*train, "shared|other"], "dev": ["First 3|second 3.", "shared|new", "x|y"]}
    data, cache = write(tmp_path / "pairs", texts), tmp_path / "cache"
    kind = ("--kind", "pair", "--label", "label", "--cache", cache)
    said = done("extract", bert, data, *kind).err
    assert (
        "dev: 1 of 3 pairs (33.3 %) are in train too, 0 of them word for word; 2 (66.7 %) share a "
        "text with one there." in said
    )
    own = ("train", bert, data, *kind[2:], "--head", "last", "--select", "cv:3")
    (plain,) = done(*own, "--json").rows
    expected = {"texts": 3, "exact": 0, "normalised": 1, "sharing": 2}
    assert plain["duplicates"]["dev"] == {"train": expected}
    assert "66.7 % of dev pairs share a text with train" in done(*own).out
    (left,) = done(*own, "--json", "--drop-duplicates").rows
    assert left["seen"]["examples"] == 11
    assert left["duplicates"]["dev"]["train"]["sharing"] == 0
