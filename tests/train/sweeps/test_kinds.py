"""Whole texts, pairs and numbers: heads learn what is planted, and nothing that is not."""

from dataclasses import replace

import pytest

from probekit.base.selection import Selection
from probekit.errors import DataError, OptionError
from probekit.features import Location, open_features
from probekit.probe.decoders import DECODERS
from probekit.results.summaries.diagnosis import notes
from probekit.results.tables.scores import summarise
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.specs import product
from tests.planted import MODEL, TASK
from tests.planted_texts import KINDS, plant_all_texts, plant_texts
from tests.train.sweeps.samples import TEXTS, spec

SST = "glue/sst2"
ON = {
    "glue/rte": ("last", "extra-layers"), SST: ("p32", "attention-fusion"),
    "glue/stsb": ("last", "dwatt"),
}  # fmt: skip
"""The heads that are tried on a task; tests/train/test_fit.py tries every head on words."""


def base(task=SST, **options):
    return spec(task=task, **{"lr": 1e-2, "epochs": 1} | options)


@pytest.mark.parametrize("task", TEXTS)
def test_heads_find_a_planted_signal_and_nothing_in_shuffled_labels(texts, swept, tmp_path, task):
    records = swept(product(base(task, epochs=15, evals=2), {"head": ON[task]}), location=texts)
    scores = {record.head: record.test_score for record in records}
    assert min(scores.values()) > 0.85, scores
    assert {record.pooling for record in records} == {"mean"}
    plant_all_texts(tmp_path, task, shuffled=True)
    plan = product(base(task, epochs=3, evals=1), {"head": ON[task]})
    chance, deviation = (0, 50**-0.5) if task == "glue/stsb" else (0.5, 0.5 * 50**-0.5)
    for record in swept(plan, "shuffled", location=Location(cache=tmp_path)):
        assert abs(record.test_score - chance) < 4 * deviation, record.head


@pytest.mark.parametrize(
    ("task", "decoder"),
    [(t, name) for name in DECODERS for t in TEXTS if KINDS[t][0] not in DECODERS[name].kinds],
)
def test_a_decoder_that_does_not_fit_is_refused(texts, task, decoder):
    with pytest.raises(OptionError, match=decoder):
        fit(base(task, decoder=decoder), location=texts)


def test_the_row_of_a_text_is_the_models_or_the_one_asked_for(tmp_path):
    plant_all_texts(tmp_path, signal=("last",), causal=True)
    for pooling, found in ((None, True), ("cls", False)):
        result = fit(base(epochs=10, pooling=pooling), location=Location(cache=tmp_path))
        assert (result.test_score > 0.85) == found


ROWS = {
    False: [
        ({}, "mean", "linear"),
        ({"decoder": "pooler:dropout=0"}, "cls", "pooler"),
        ({"as_published": True}, "cls", "pooler"),
        ({"decoder": "pooler", "pooling": "mean"}, "mean", "pooler"),
    ],
    True: [
        ({}, "last", "linear"),
        ({"decoder": "pooler"}, "last", "pooler"),
        ({"as_published": True}, "last", "linear"),
    ],
}
"""Options, the row that is read and the decoder, by whether the model is causal."""


@pytest.mark.parametrize("causal", ROWS)
def test_which_row_stands_for_a_text_and_what_decodes_it(texts, swept, tmp_path, causal):
    where = Location(cache=plant_all_texts(tmp_path, causal=True)) if causal else texts
    for options, read, decoder in ROWS[causal]:
        (record,) = swept([base(**options)], location=where)
        assert (record.pooling, record.decoder) == (read, decoder), options


@pytest.mark.parametrize("steps", [{"epochs": None, "lr": None}, {"epochs": 3}])
def test_labels_far_from_zero_have_the_ranks_of_those_near_it(tmp_path, steps):
    scores = []
    for start in (100, 1_700_000_100):
        for split, count in (("train", 40), ("dev", 30)):
            seconds = [f"{start + 37 * n % 101}" for n in range(count)]
            plant_texts(tmp_path / f"{start}", "glue/stsb", split, count=count, values=seconds)
        found = fit(base("glue/stsb", **steps), location=Location(cache=tmp_path / f"{start}"))
        scores.append([found.scores["dev/spearman"], found.scores["dev/loss"]])
    assert scores[1] == pytest.approx(scores[0], rel=1e-4) and scores[0][0] != 0


def test_labels_that_cannot_be_trained_on_are_named(texts, tmp_path):
    plant_texts(tmp_path, "glue/stsb", count=3, values=["1.0", "2.5", "high"])
    plant_texts(tmp_path, labelled=False)
    for task in ("glue/stsb", SST):
        plant_texts(tmp_path, task, "dev", count=3)
    with pytest.raises(DataError, match=r"train, labels 'label'.*'high' is not a number"):
        fit(base("glue/stsb"), location=Location(cache=tmp_path))
    with pytest.raises(DataError, match=r"train, labels 'label': none are stored"):
        fit(base(), location=Location(cache=tmp_path))
    with pytest.raises(OptionError, match=r"--shots 8 .*\(regression\).*--fraction"):
        fit(base("glue/stsb", shots=8), location=texts)


def test_rows_that_there_are_not_are_refused(words, texts):
    with pytest.raises(OptionError, match=r"--pooling cls .*\(tagging\) have rows of their own"):
        fit(base(TASK, pooling="cls"), location=words)
    for options in ({"depth": 1}, {"layers": "0:"}):
        with pytest.raises(
            OptionError, match=r"'tokens' of .* holds layers 3\. Use .*without --layers"
        ):
            fit(base(head="extra-layers", **options), location=texts)


@pytest.fixture
def untested(tmp_path):
    """Texts without a test split: folds choose."""
    for split in ("train", "dev"):
        plant_texts(tmp_path, split=split)
    return Location(cache=tmp_path)


FEW = base(epochs=None, lr=None, shots=4)


def test_small_draws_have_fewer_folds_unless_some_were_asked_for(untested):
    """Four texts cannot fill five folds."""
    splits, few = open_features(MODEL, SST, None, untested), replace(FEW, shots=2, seed=1)
    assert resolve(replace(few, shots=20), splits).spec.select == "cv:5"
    assert resolve(few, splits).spec.select in ("cv:2 of 5", "cv:3 of 5", "dev")
    assert fit(few, location=untested).diagnosis["converged"]
    with pytest.raises(OptionError, match=r"cv:5: no class has 5 examples.*give --select (cv|dev)"):
        resolve(replace(few, select="cv:5"), splits)
    # nor one text any: what is drawn may even have one class, which nothing is trained on
    refusals = []
    for seed in range(12):
        try:
            resolve(replace(few, shots=1, seed=seed), splits)
        except OptionError as error:
            refusals.append(str(error))
    assert refusals and all("have the same class" in message for message in refusals)


def test_seeds_whose_draws_allow_fewer_folds_belong_to_one_setting(untested, swept):
    records = swept(product(FEW, {"seed": range(6)}), location=untested)
    assert {record.select for record in records} == {"cv:5"}
    folds = [record.diagnosis.get("folds", 5) for record in records]
    assert len(set(folds)) > 1 and min(folds) == 4, "of eight texts, one class has four or more"
    (row,) = summarise(records)
    assert row.seeds == tuple(range(6))
    few_folds = sum(n < 5 for n in folds)
    assert f"{few_folds} of 6 runs used 4 folds: no class" in notes(records)[-1]


def test_fewer_folds_are_written_as_they_are_read():
    few = Selection.parse("cv:3 of 5")
    assert (few.folds, few.asked, str(few)) == (3, "cv:5", "cv:3 of 5")
    for text in ("cv:3 of 2", "cv:3 of 3", "cv:3 of", "cv:1 of 5", "cv:3 of five"):
        with pytest.raises(OptionError, match="choose dev, cv:K"):
            Selection.parse(text)
