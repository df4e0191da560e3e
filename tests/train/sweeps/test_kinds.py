"""Whole texts, pairs and numbers: every head learns what is planted, and nothing that is not."""

from dataclasses import replace

import pytest

from probekit.base.selection import Selection
from probekit.errors import DataError, OptionError, UnknownNameError
from probekit.features import Location, open_features
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.results.summaries.diagnosis import notes
from probekit.results.tables.scores import summarise
from probekit.train.saved.head import TrainedHead
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.specs import TrainSpec, product
from tests.planted import MODEL
from tests.planted_texts import KINDS, plant_all_texts, plant_texts

LR = {"laya": 1e-3}  # trained at a hundredth of the light heads' rate


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    root = tmp_path_factory.mktemp("texts")
    for task in KINDS:
        plant_all_texts(root, task)
    return root


def base(task, **options):
    return TrainSpec(**{"model": MODEL, "task": task, "head": "last", "lr": 1e-2} | options)


@pytest.mark.parametrize("task", KINDS)
def test_every_head_finds_a_planted_signal(cache, task, tmp_path):
    plan = [base(task, head=head, epochs=20, lr=LR.get(head, 1e-2)) for head in HEADS]
    records = sweep(plan, out=tmp_path / "r.jsonl", location=Location(cache=cache))
    scores = {record.head: record.test_score for record in records}
    assert min(scores.values()) > 0.85, scores
    assert {record.pooling for record in records} == {"mean"}


@pytest.mark.parametrize("task", KINDS)
def test_every_head_is_at_chance_on_shuffled_labels(task, tmp_path):
    plant_all_texts(tmp_path, task, shuffled=True)
    plan = product(base(task, epochs=5), {"head": HEADS})
    records = sweep(plan, out=tmp_path / "r.jsonl", location=Location(cache=tmp_path))
    chance, deviation = (0, 50**-0.5) if task == "glue/stsb" else (0.5, 0.5 * 50**-0.5)
    for record in records:
        assert abs(record.test_score - chance) < 4 * deviation, record.head


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_that_does_not_fit_is_refused(cache, name):
    for task, (kind, _) in KINDS.items():
        if kind in DECODERS[name].kinds:
            continue
        with pytest.raises(OptionError, match=name):
            fit(base(task, decoder=name), location=Location(cache=cache))


def test_the_row_of_a_text_is_the_models_or_the_one_asked_for(tmp_path):
    plant_all_texts(tmp_path, signal=("last",), causal=True)
    location = Location(cache=tmp_path)
    assert fit(base("glue/sst2", epochs=10), location=location).test_score > 0.9
    for pooling, found in (("last", True), ("cls", False), ("mean", False)):
        result = fit(base("glue/sst2", epochs=10, pooling=pooling), location=location)
        assert (result.test_score > 0.85) == found
    with pytest.raises(UnknownNameError, match="unknown pooling 'max'"):
        base("glue/sst2", pooling="max")


def test_whole_texts_are_decoded_linearly_and_as_published_by_an_encoder_s_pooler(cache, tmp_path):
    plant_all_texts(tmp_path, causal=True)
    for place, published in ((cache, "pooler"), (tmp_path, "linear")):
        location = Location(cache=place)
        found = fit(base("glue/sst2", epochs=1), location=location)
        assert found.modules["decoder"]["name"] == "linear"
        found = fit(base("glue/sst2", epochs=1, as_published=True), location=location)
        assert found.modules["decoder"]["name"] == published


def test_shots_need_classes(cache):
    with pytest.raises(OptionError, match=r"--shots 8 .*\(regression\).*--fraction"):
        fit(base("glue/stsb", shots=8), location=Location(cache=cache))


@pytest.mark.parametrize("steps", [{}, {"epochs": 3}])
def test_labels_far_from_zero_have_the_ranks_of_those_near_it(tmp_path, steps):
    scores = []
    for start in (100, 1_700_000_100):
        for split, count in (("train", 40), ("dev", 30)):
            seconds = [f"{start + 37 * n % 101}" for n in range(count)]
            plant_texts(tmp_path / f"{start}", "glue/stsb", split, count=count, values=seconds)
        found = fit(base("glue/stsb", **steps), location=Location(cache=tmp_path / f"{start}"))
        scores.append([found.scores["dev/spearman"], found.scores["dev/loss"]])
    assert scores[1] == pytest.approx(scores[0], rel=1e-4) and scores[0][0] != 0


def test_a_regression_label_that_is_no_number_is_named(tmp_path):
    plant_texts(tmp_path, "glue/stsb", count=3, values=["1.0", "2.5", "high"])
    plant_texts(tmp_path, "glue/stsb", "dev", count=3)
    with pytest.raises(DataError, match=r"train, labels 'label'.*'high' is no number"):
        fit(base("glue/stsb"), location=Location(cache=tmp_path))


def test_an_unlabelled_train_split_says_so(tmp_path):
    plant_texts(tmp_path, labelled=False)
    plant_texts(tmp_path, split="dev")
    with pytest.raises(DataError, match=r"train, labels 'label': none are stored"):
        fit(base("glue/sst2"), location=Location(cache=tmp_path))


def test_an_unlabelled_test_split_is_not_scored(tmp_path):
    for split in ("train", "dev"):
        plant_texts(tmp_path, split=split)
    plant_texts(tmp_path, split="test", labelled=False)
    result = fit(base("glue/sst2", epochs=2), location=Location(cache=tmp_path))
    assert result.test_score is None and not any(name.startswith("test") for name in result.scores)


def test_pooling_is_not_for_words(tmp_path):
    from tests.planted import TASK, plant_all

    spec = TrainSpec(model=MODEL, task=TASK, head="last", pooling="cls")
    with pytest.raises(OptionError, match=r"--pooling cls .*\(tagging\) have rows of their own"):
        fit(spec, location=Location(cache=plant_all(tmp_path)))


def test_subwords_that_are_not_kept_are_asked_for(tmp_path):
    for split in ("train", "dev"):
        plant_texts(tmp_path, split=split, keep=("cls", "mean", "last"))
    with pytest.raises(DataError, match=r"'tokens'.*--keep cls,last,mean,tokens"):
        fit(base("glue/sst2", head="extra-layers"), location=Location(cache=tmp_path))


def test_a_head_is_not_continued_on_other_rows(cache, tmp_path):
    spec = base("glue/sst2", epochs=1, pooling="cls")
    folder, location = tmp_path / "head", Location(cache=cache)
    sweep([spec], out=tmp_path / "r.jsonl", location=location, save=folder)
    fit(replace(spec, init_from=str(folder)), location=location)
    with pytest.raises(OptionError, match="saved with rows cls, but this run has mean"):
        fit(replace(spec, init_from=str(folder), pooling="mean"), location=location)


def test_a_head_of_subwords_cannot_be_cut(cache):
    for options in ({"depth": 1}, {"layers": "0:"}):
        spec = base("glue/sst2", head="extra-layers", **options)
        with pytest.raises(OptionError, match="subwords, which the cache has of the last layer al"):
            fit(spec, location=Location(cache=cache))


@pytest.mark.parametrize("head", ["last", "concat-ffn", "extra-layers"])
def test_a_saved_head_knows_what_it_reads(cache, head, tmp_path):
    spec = base("glue/stsb", head=head, epochs=2)
    out = tmp_path / "r.jsonl"
    (record,) = sweep([spec], out=out, location=Location(cache=cache), save=tmp_path / "head")
    saved = TrainedHead.from_pretrained(tmp_path / "head")
    assert (saved.kind, saved.text_kind, saved.array) == ("regression", "pair", "mean")
    assert saved.config["test_score"] == record.test_score


def test_small_draws_have_fewer_folds_unless_some_were_asked_for(tmp_path):
    """Texts without a test split are chosen by folds; four texts cannot fill five."""
    for split in ("train", "dev"):
        plant_texts(tmp_path, split=split)
    location = Location(cache=tmp_path)
    few = base("glue/sst2", epochs=None, lr=None, shots=2, seed=1)
    splits = open_features(MODEL, "glue/sst2", None, location)
    assert resolve(replace(few, shots=20), splits).spec.select == "cv:5"
    assert resolve(few, splits).spec.select in ("cv:2 of 5", "cv:3 of 5", "dev")
    assert fit(few, location=location).diagnosis["converged"]
    with pytest.raises(OptionError, match=r"cv:5: no class has 5 examples.*give --select (cv|dev)"):
        resolve(replace(few, select="cv:5"), splits)


def test_seeds_whose_draws_allow_fewer_folds_belong_to_one_setting(tmp_path):
    for split in ("train", "dev"):
        plant_texts(tmp_path, split=split)
    few = base("glue/sst2", epochs=None, lr=None, shots=4)
    plan = product(few, {"seed": range(6)})
    records = sweep(plan, out=tmp_path / "r.jsonl", location=Location(cache=tmp_path))
    assert {record.select for record in records} == {"cv:5"}
    folds = [record.diagnosis.get("folds", 5) for record in records]
    assert len(set(folds)) > 1 and min(folds) == 4, "of eight texts, one class has four or more"
    (row,) = summarise(records)
    assert row.seeds == tuple(range(6))
    few_folds = sum(n < 5 for n in folds)
    assert f"folds in {few_folds} of 6 runs, whose draws have no" in notes(records)[-1]


def test_a_draw_of_one_class_is_refused_before_anything_is_trained(tmp_path):
    for split in ("train", "dev"):
        plant_texts(tmp_path, split=split)
    splits = open_features(MODEL, "glue/sst2", None, Location(cache=tmp_path))
    found = []
    for seed in range(12):
        try:
            resolve(base("glue/sst2", epochs=None, lr=None, shots=1, seed=seed), splits)
        except OptionError as error:
            found.append(str(error))
    assert found and all("have one class" in message for message in found)


@pytest.mark.parametrize(
    ("options", "causal", "read"),
    [
        ({}, False, "mean"),
        ({}, True, "last"),
        ({"decoder": "pooler"}, False, "cls"),
        ({"decoder": "pooler:dropout=0"}, False, "cls"),
        ({"decoder": "pooler"}, True, "last"),
        ({"as_published": True}, False, "cls"),
        ({"decoder": "pooler", "pooling": "mean"}, False, "mean"),
    ],
)
def test_which_row_stands_for_a_text(options, causal, read, tmp_path):
    location = Location(cache=plant_all_texts(tmp_path, causal=causal))
    (record,) = sweep(
        [base("glue/sst2", epochs=1, **options)], out=tmp_path / "r.jsonl", location=location
    )
    assert record.pooling == read


def test_fewer_folds_are_written_as_they_are_read():
    few = Selection.parse("cv:3 of 5")
    assert (few.folds, few.asked, str(few)) == (3, "cv:5", "cv:3 of 5")
    for text in ("cv:3 of 2", "cv:3 of 3", "cv:3 of", "cv:1 of 5", "cv:3 of five"):
        with pytest.raises(OptionError, match="choose dev, cv:K"):
            Selection.parse(text)
