"""What records and side files say of probabilities, recomputed from the side file by others."""

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
from sklearn import metrics as sklearn

from probekit.errors import OptionError, RecordError
from probekit.features import Location, open_features
from probekit.metrics import OF_PROBABILITIES
from probekit.results.comparison import choose_run, compare
from probekit.results.predictions import read_predicted
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, NAMES, TASK, plant, plant_all
from tests.planted_texts import plant_all_texts
from tests.saved_heads import unsealed_records

NEW = ("O", "B-PER", "I-PER", "B-NEW", "I-LOC")
NAMES_OF_SCORES = [metric.name for metric in OF_PROBABILITIES]


def spec(**options):
    return TrainSpec(**{"model": MODEL, "task": TASK, "head": "last", "epochs": 3} | options)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Side files of a linear decoder by steps, one that is solved, a CRF, and its twin's seed."""
    root = tmp_path_factory.mktemp("words")
    plant_all(root / "cache")
    plan = [
        spec(),
        spec(head="mean", epochs=None),
        spec(decoder="crf", seed=0),
        spec(decoder="crf", seed=1),
    ]
    location = Location(cache=root / "cache")
    return sweep(plan, out=root / "runs.jsonl", location=location, predictions=True), location


def test_scores_are_those_of_the_side_file(words):
    """In float16, so to three digits; the calibration error of 250 rows may move by a row."""
    for record in words[0]:
        about, splits = read_predicted(record.predictions)
        for name, found in splits.items():
            p = found.probabilities.astype(float)
            assert p.shape == (len(found.predicted), len(about.classes))
            assert np.abs(p.sum(1) - 1).max() < 2e-3
            one_hot = np.eye(p.shape[1])[found.gold]
            own = np.clip(p, 1e-8, None) / p.sum(1, keepdims=True)
            loss = sklearn.log_loss(found.gold, own, labels=range(p.shape[1]))
            assert record.scores[f"{name}/loss"] == pytest.approx(loss, rel=3e-3)
            brier = np.square(p - one_hot).sum(1).mean()
            assert record.scores[f"{name}/brier"] == pytest.approx(brier, rel=3e-3)
            for metric in NAMES_OF_SCORES:
                assert 0 < record.scores[f"{name}/{metric}"] < 2
            confidence = np.take_along_axis(p, found.predicted[:, None], 1)[:, 0]
            assert found.row_scores["confidence"] == pytest.approx(confidence, abs=1e-3)
            assert np.array_equal(found.row_scores["right"], found.predicted == found.gold)


def test_linear_decoders_predict_the_most_probable_class(words):
    for record in words[0][:2]:
        for found in read_predicted(record.predictions)[1].values():
            chosen = np.take_along_axis(found.probabilities, found.predicted[:, None], 1)[:, 0]
            assert np.array_equal(chosen, found.probabilities.max(1))  # float16 has ties


def test_texts_are_the_words_of_the_rows(words):
    record, location = words[0][0], words[1]
    view = open_features(MODEL, TASK, None, location).view("dev")
    found = read_predicted(record.predictions)[1]["dev"]
    assert [word for text in found.texts for word in text] == view.words
    assert found.texts[0][:2] == ("w0", "w1") and found.ids == view.ids


@pytest.mark.parametrize("metric", [*NAMES_OF_SCORES, "accuracy"])
def test_any_score_is_compared(words, metric):
    one, two = words[0][0], words[0][2]
    file = one.predictions.rpartition("-predictions")[0] + ".jsonl"
    runs = [choose_run(f"{file}#{record.key}") for record in (one, two)]
    found = compare(*runs, split="test", metric=metric, samples=200)
    scores = [record.scores[f"test/{metric}"] for record in (one, two)]
    assert [found.score_a, found.score_b] == pytest.approx(scores, rel=1e-6)
    assert (found.metric, found.difference) == (metric, pytest.approx(scores[0] - scores[1]))
    assert found.low < found.high


def test_a_side_file_of_an_earlier_version_has_no_probabilities(words, tmp_path):
    plan, out = [spec(head=head, epochs=1) for head in ("last", "mean")], tmp_path / "runs.jsonl"
    for record in sweep(plan, out=out, location=words[1], predictions=True):
        table = pq.read_table(record.predictions)
        pq.write_table(table.select(["split", "id", "gold", "predicted"]), record.predictions)
    unsealed_records(out)
    runs = [choose_run(f"{out}#head={head}") for head in ("last", "mean")]
    assert compare(*runs, samples=100).metric == "span-f1"
    with pytest.raises(RecordError, match=r"seed 0: ece is a score of probabilities.* delete .*-p"):
        compare(*runs, metric="ece", samples=100)
    with pytest.raises(RecordError, match=r"spearman scores values.* are classes; choose from: sp"):
        compare(*runs, metric="spearman", samples=100)


def test_labels_that_train_does_not_have(tmp_path):
    plant(tmp_path, "train")
    plant(tmp_path, "dev", sentences=30, seed=1, names=NEW)
    result = fit(spec(), location=Location(cache=tmp_path))
    view = open_features(MODEL, TASK, None, Location(cache=tmp_path)).view("dev")
    unseen = view.targets >= len(NAMES)
    assert 10 < unseen.sum() == result.scores["dev/unseen rows"]
    rows = result.probabilities["dev"].scores
    assert np.isnan(rows["loss"][unseen]).all() and not rows["right"][unseen].any()
    known = rows["loss"][~unseen].astype(float).mean()
    assert result.scores["dev/loss"] == pytest.approx(known)
    assert result.probabilities["dev"].probabilities.shape == (len(view), len(NAMES))
    assert (rows["brier"][unseen] >= 1).all()


@pytest.mark.parametrize("task", ["glue/sst2", "glue/rte", "glue/stsb"])
def test_texts_pairs_and_numbers(tmp_path, task):
    plant_all_texts(tmp_path, task)
    (record,) = sweep(
        [spec(task=task)], out=tmp_path / "r.jsonl", location=Location(cache=tmp_path),
        predictions=True,
    )  # fmt: skip
    found = read_predicted(record.predictions)[1]["test"]
    view = open_features(MODEL, task, None, Location(cache=tmp_path)).view("test")
    assert list(found.texts) == view.texts
    if task == "glue/stsb":
        assert found.probabilities is None and found.row_scores is None
        expected = sklearn.mean_squared_error(found.gold, found.predicted)
        assert record.scores["test/loss"] == pytest.approx(expected)
        assert "test/ece" not in record.scores
        same = choose_run(f"{tmp_path}/r.jsonl")
        with pytest.raises(OptionError, match="are the same run"):
            compare(same, same, metric="loss")
    else:
        rows = pandas.read_parquet(record.predictions).query("split == 'test'")
        p = np.stack([one[0] for one in rows["probabilities"]]).astype(float)
        gold = np.array([one[0] for one in rows["gold"]])
        classes = np.array(view.labels.names)
        expected = sklearn.log_loss(gold, p / p.sum(1, keepdims=True), labels=classes)
        assert record.scores["test/loss"] == pytest.approx(expected, rel=3e-3)


def test_the_loss_of_numbers_is_compared(tmp_path):
    plant_all_texts(tmp_path, "glue/stsb")
    plan = [spec(task="glue/stsb", head=head) for head in ("last", "mean")]
    out = tmp_path / "r.jsonl"
    one, two = sweep(plan, out=out, location=Location(cache=tmp_path), predictions=True)
    runs = [choose_run(f"{out}#head={head}") for head in ("last", "mean")]
    found = compare(*runs, metric="loss", samples=200)
    assert found.score_a == pytest.approx(one.scores["test/loss"])
    assert found.score_b == pytest.approx(two.scores["test/loss"])
    with pytest.raises(RecordError, match=r"ece scores probabilities.* values; choose from: spear"):
        compare(*runs, metric="ece", samples=100)


def test_what_is_recorded_does_not_depend_on_who_else_trains(words):
    _, location = words
    alone = fit(spec(), location=location)
    assert dict(alone.scores) == dict(words[0][0].scores)
