"""Heads with their baselines, end to end on planted features."""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

from probekit import ExtractOptions, extract
from probekit.errors import OptionError
from probekit.features import Location, open_features
from probekit.metrics.class_metrics import F1
from probekit.results import load_records
from probekit.results.summaries.grouping import beside_heads
from probekit.train.baselines import run_baselines
from probekit.train.baselines.guesses import majority, memorised
from probekit.train.baselines.held_against import _held_against
from probekit.train.scoring import gold_of
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec, product
from tests import tiny
from tests.cli.console import done, refused
from tests.planted import MODEL, TASK, plant, plant_all
from tests.planted_texts import plant_all_texts, plant_texts
from tests.results.samples import make_record
from tests.tasks.own_files import json_lines, write

BESIDE = ("accuracy", "control/accuracy", "selectivity", "bits per label", "compression")


def base(**options):
    defaults = {"model": MODEL, "task": TASK, "label": "ner", "head": "last"}
    return TrainSpec(**defaults | {"epochs": 6, "lr": 1e-2} | options)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    root = tmp_path_factory.mktemp("cache")
    return plant_all(root, types=15)


def run(plan, out, cache, **options):
    return run_baselines(plan, out=out, location=Location(cache=cache), device="cpu", **options)


def by_head(record):
    return record.head, record.seed


def test_words_have_every_baseline(cache, tmp_path):
    plan = product(base(epochs=10, evals=2), {"seed": [0, 1]})
    found = run(plan, tmp_path / "r.jsonl", cache)
    heads = [(record.head, record.seed) for record in found.heads]
    assert heads == [(spec.head, spec.seed) for spec in plan]
    controls = sweep(
        [replace(spec, control=spec.seed) for spec in plan], out=tmp_path / "controls.jsonl",
        location=Location(cache=cache), device="cpu",
    )  # fmt: skip
    for record, control in zip(found.heads, controls, strict=True):
        scores = record.scores
        assert scores["accuracy"] == scores["test/accuracy"]
        assert scores["control/accuracy"] == control.test_score == control.scores["test/accuracy"]
        assert scores["selectivity"] == scores["accuracy"] - scores["control/accuracy"]
        assert scores["selectivity"] > 0.3  # the signal is in the rows, the control's is not
        assert scores["compression"] > 1
        assert scores["test/span-f1"] == record.test_score
    guesses = [(record.head, record.seed) for record in found.guesses]
    assert guesses == [(name, seed) for seed in (0, 1) for name in ("majority", "memorised")]
    for record in found.guesses:
        assert (record.decoder, record.layers, record.n_params) == ("none", (), 0)
        assert record.metric == "span-f1" and record.scores["test/span-f1"] == record.test_score
    # and a file that is read again says the same of its heads
    again = [r for r in beside_heads(load_records(tmp_path / "r.jsonl")) if r.protocol == "full"]
    for record, read in zip(found.heads, sorted(again, key=by_head), strict=True):
        assert {name: read.scores[name] for name in BESIDE} == {
            name: record.scores[name] for name in BESIDE
        }
        majority = next(r for r in found.guesses if (r.head, r.seed) == ("majority", read.seed))
        assert read.scores["majority"] == majority.test_score
    assert found.random == []
    (note,) = found.notes
    assert note.endswith(f"{TASK} --cache {cache} --random-init 0") and "planted-random0" in note


def test_a_second_time_trains_nothing_and_appends_nothing(cache, tmp_path, monkeypatch):
    plan = product(base(epochs=1), {"head": ["last", "p32"]})
    same = [replace(spec, lr=None) for spec in plan]  # the heads' own rate, which is 1e-2
    out = tmp_path / "r.jsonl"
    first = run([*plan, *same], str(out), cache)
    lines = out.read_text().splitlines()
    # two guesses of each sample; a head, a control and a code of each run
    assert len(lines) == len({r.key for r in load_records(out)}) == 2 + 3 * len(plan)
    assert len(first.heads) == len(plan) and set(BESIDE) <= set(first.heads[0].scores)
    monkeypatch.setattr("probekit.train.sweeps.worker.fit_group", None)
    monkeypatch.setattr("probekit.train.baselines.baseline_records.fit_group", None)
    assert run(plan, out, cache) == first
    assert out.read_text().splitlines() == lines


def test_few_shot_guesses_are_of_the_drawn_sample(cache, tmp_path):
    plan = product(base(epochs=1), {"shots": [2, None], "seed": [0, 1]})
    found = run(plan, tmp_path / "r.jsonl", cache)
    few = {r.seed: r.test_score for r in found.guesses if r.shots and r.head == "memorised"}
    full = {r.test_score for r in found.guesses if not r.shots and r.head == "memorised"}
    assert len(full) == 1 < len(set(few.values()))
    assert [r.protocol for r in found.guesses if r.shots] == ["few-shot"] * 4


def test_a_random_backbone_is_found_by_its_name(tmp_path):
    """Beside a chosen entry of the model itself, and where another split is fitted on, too."""
    cache = plant_all(tmp_path / "cache")
    key = next((cache / MODEL / TASK).glob("train-????????")).name
    for model in (f"{MODEL}-random0", f"{MODEL}-random12", f"{MODEL}-randomly", f"{MODEL}2"):
        plant_all(cache, model=model, signal=(), request="another")
    plan = product(base(epochs=10, evals=2), {"head": ["last", "mean"]})
    at = Location(cache=cache, entry=key)
    found = run_baselines(plan, out=tmp_path / "r.jsonl", location=at, device="cpu")
    assert [(record.model, record.head) for record in found.random] == [
        (f"{MODEL}-random{seed}", head) for seed in (0, 12) for head in ("last", "mean")
    ]
    assert found.notes == []
    random, trained = (
        [r.scores["test/accuracy"] for r in some] for some in (found.random, found.heads)
    )
    assert max(random) < 0.4 < 0.8 < min(trained)
    found = run([base(epochs=1, fit_on="test", hold_out=0.25)], tmp_path / "t.jsonl", cache)
    assert [record.model for record in found.random] == [f"{MODEL}-random0", f"{MODEL}-random12"]


def test_a_random_backbone_is_read_on_the_text_of_the_model(tmp_path):
    """Of the first sentences of both, and of all of the random one."""
    bert, cache = tiny.build("bert", tmp_path / "bert"), tmp_path / "cache"
    for split in ("train", "dev"):
        tagged = ({"words": ["call", name], "tags": ["O", name]} for name in "ABCDEFAB")
        write(tmp_path / "data" / f"{split}.jsonl", json_lines(*tagged))
    keys = []
    for limit, seed in ((4, None), (None, 0), (4, 0)):
        options = ExtractOptions(limit=limit, random_init=seed)
        train, _ = extract(bert, str(tmp_path / "data"), cache=cache, options=options, device="cpu")
        keys.append(train.manifest.key)
    spec = TrainSpec(model=str(bert), task=str(tmp_path / "data"), head="last", l2=0.1)
    found = run([spec], tmp_path / "r.jsonl", cache)
    assert [record.entry for record in (*found.heads, *found.random)] == [keys[0], keys[2]]


def test_a_random_backbone_that_cannot_be_used_is_a_note(tmp_path):
    cache = plant_all(tmp_path / "cache")
    plant(cache, model=f"{MODEL}-random0")  # no dev split
    for split in ("train", "dev"):
        plant(cache, split, model=f"{MODEL}-random1", layers=(3,), signal=())
    found = run([base(head="p32", epochs=1)], tmp_path / "r.jsonl", cache)
    first, second = found.notes
    assert found.random == []
    assert "scores of planted-random0: conll: the dev split is not in the cache" in first
    assert "scores of planted-random1: the head reads layer 1, but" in second


@pytest.mark.parametrize(
    ("task", "decoder", "absent", "notes"),
    [
        ("glue/rte", "pooler", {"control/accuracy", "selectivity"}, ["no control task"]),
        (
            "glue/stsb",
            None,
            {"control/accuracy", "selectivity", "compression"},
            ["no control task", "no code length"],
        ),
    ],
)
def test_texts_have_no_control_task_and_numbers_no_code(tmp_path, task, decoder, absent, notes):
    cache = plant_all_texts(tmp_path / "cache", task)
    with pytest.raises(OptionError, match="a control task gives every word type"):
        at = Location(cache=cache)
        sweep([base(task=task, label=None, control=0)], out=tmp_path / "c.jsonl", location=at)
    found = run([base(task=task, label=None, decoder=decoder)], tmp_path / "r.jsonl", cache)
    (record,), (guess,) = found.heads, found.guesses
    assert not absent & record.scores.keys() and guess.head == "majority"
    assert record.scores.get("compression", 2) > 1.2
    said = [note.split(":")[0] for note in found.notes]
    assert said == [*notes, "no randomly initialised backbone"]
    chance = 0 if task == "glue/stsb" else 0.5  # a constant correlates with nothing
    assert abs(guess.test_score - chance) < 0.1 and record.test_score > chance + 0.3


def test_on_the_command_line_everything_is_in_one_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant_all(tmp_path / "cache", types=15)
    plant_all(tmp_path / "cache", types=15, model=f"{MODEL}-random0", signal=())
    words = ("train", MODEL, TASK, "--head", "p32", "--epochs", "1", "--seeds", "2", "--baselines")
    words += ("--save", "heads", "--predictions")
    outcome = done(*words)
    header, _, *rows = outcome.out.splitlines()[:6]
    for column in ("model", "control accuracy", "selectivity", "bits per label", "compression"):
        assert column in header
    assert [row.split()[1] for row in rows] == ["majority", "memorised", "p32", "p32"]
    assert [row.split()[0] for row in rows] == [*[MODEL] * 3, f"{MODEL}-random0"]
    assert "random-init" not in outcome.err
    assert "recorded" not in outcome.err  # before anything is
    (file,) = (tmp_path / "runs").rglob("*.jsonl")
    before = file.read_text()
    again = done(*words, "--json")
    assert file.read_text() == before
    assert again.err.startswith("2 of 2 runs are recorded in runs/")
    assert [row["head"] for row in again.rows] == ["majority", "memorised"] * 2 + ["p32"] * 4
    assert all(name in again.rows[4]["scores"] for name in BESIDE)
    assert (tmp_path / again.rows[4]["predictions"]).is_file()
    assert len(list((tmp_path / "heads").glob("*/config.json"))) == 2
    header, _, row, blank = done("table", file).out.splitlines()[:4]
    assert row.split()[0] == "p32" and not blank
    for column in ("majority", "memorised", "random weights", "selectivity", "compression"):
        assert column in header
    text = done("table", file, "--against", "majority").out
    assert [line.split()[0] for line in text.splitlines()[2:4]] == ["majority", "p32"]
    rows = done("table", file, "--columns", "model").out.splitlines()[2:5]
    assert [row.split()[0] for row in rows] == ["majority", "memorised", "p32"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--control", "0"), "--control and --baselines were both given"),
        (("--label", "ner,pos"), "--baselines works on one label column, and 2 were given"),
        (("--shots", "0", "--start", "saved"), r"only scored (--shots 0, --fraction 0)"),
    ],
)
def test_what_cannot_be_held_against_is_refused_before_training(
    cache, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    words = ("--baselines", "--cache", cache, "--head", "last", *words)
    assert message in refused("train", MODEL, TASK, *words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("diverged", ["control", "code", None])
def test_a_baseline_that_diverged_is_told_of_the_head(diverged):
    scores = {"test/accuracy": 0.9, "bits per label": 1.0, "compression": 2.0}
    head = make_record(scores=scores)
    control = make_record(scores=scores, diverged=diverged == "control")
    code = make_record(scores=scores, diverged=diverged == "code")
    assert _held_against(head, control, code).diverged == (diverged is not None)
    assert not _held_against(head, None, None).diverged


def splits_in(root, **options):
    location = Location(cache=plant_all(root, types=12, **options))
    return open_features(MODEL, TASK, "ner", location)


def pairs_of(splits, split):
    """Word, label and validity of every row, straight from the table and the labels."""
    table = splits.entries[split].examples
    words = [word for n in range(len(table)) for word in table.words(n)]
    return list(zip(words, splits.labels[split].values, table.valid.tolist(), strict=True))


def most_frequent(counts):
    return min(counts, key=lambda label: (-counts[label], label))


def test_majority_and_memory_equal_naive_ones(tmp_path):
    splits = splits_in(tmp_path, invalid=0.3)
    train = splits.view("train", valid_only=True)
    counts, by_word = Counter(), defaultdict(Counter)
    for word, label, valid in pairs_of(splits, "train"):
        if valid:
            counts[label] += 1
            by_word[word][label] += 1
    for split in ("dev", "test"):
        view = splits.view(split)
        names = np.array(view.all_names)
        words = [word for word, _, _ in pairs_of(splits, split)]
        assert view.words == words
        assert set(names[majority(train)(view)]) == {most_frequent(counts)}
        expected = [most_frequent(by_word.get(word, counts)) for word in words]
        assert names[memorised(train)(view)].tolist() == expected


def test_a_regression_guesses_the_mean_of_train(tmp_path):
    plant_all_texts(tmp_path, "glue/stsb")
    splits = open_features(MODEL, "glue/stsb", None, Location(cache=tmp_path))
    found = majority(splits.view("train"))(splits.view("test"))
    values = [float(value) for value in splits.labels["train"].values]
    np.testing.assert_allclose(found, np.full(50, sum(values) / len(values)))


def test_always_yes_is_scored_in_the_unit_of_its_column(tmp_path):
    """MRPC's dev has 408 pairs, 279 of them paraphrases: an F1 of 81.2 and an accuracy of 68.4."""
    values = {"train": ["1", "1", "0"], "dev": ["1"] * 279 + ["0"] * 129}
    for split, own in values.items():
        plant_texts(tmp_path, "glue/mrpc", split, count=len(own), values=own)
    splits = open_features(MODEL, "glue/mrpc", None, Location(cache=tmp_path))
    view = splits.view("dev")
    scores = F1(gold_of(view, F1)).score(majority(splits.view("train"))(view))
    assert scores["f1"] == pytest.approx(2 * 279 / (279 + 408)) == pytest.approx(0.8122, abs=1e-4)
    assert scores["accuracy"] == pytest.approx(279 / 408)


def test_a_label_unseen_in_train_is_never_guessed(tmp_path):
    plant(tmp_path, names=("O", "B-PER"), types=5)
    plant(tmp_path, "dev", types=9)
    splits = open_features(MODEL, TASK, "ner", Location(cache=tmp_path))
    train, view = splits.view("train", valid_only=True), splits.view("dev")
    for guess in (majority(train), memorised(train)):
        assert guess(view).max() < len(splits.label_map)
