"""What side files say: probabilities, recomputed by others, texts, and what belongs together."""

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
from tests.planted import MODEL, NAMES, TASK, plant, store_groups
from tests.saved_heads import unsealed_records
from tests.train.sweeps.samples import spec

NEW = ("O", "B-PER", "I-PER", "B-NEW", "I-LOC")
NAMES_OF_SCORES = [metric.name for metric in OF_PROBABILITIES]


@pytest.fixture(scope="module")
def predicted(words, tmp_path_factory):
    """Side files of a linear decoder by steps, one that is solved, and a CRF."""
    plan = [spec(epochs=3), spec(head="mean"), spec(decoder="crf", epochs=3)]
    out = tmp_path_factory.mktemp("predicted") / "runs.jsonl"
    return sweep(plan, out=out, location=words, predictions=True)


def test_scores_are_those_of_the_side_file(predicted):
    """In float16, so to three digits; the calibration error of 250 rows may move by a row."""
    for record in predicted:
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
            if record.decoder == "linear":  # the most probable class; float16 has ties
                assert confidence.tolist() == p.max(1).tolist()


def test_texts_are_the_words_of_the_rows(words, predicted):
    view = open_features(MODEL, TASK, None, words).view("dev")
    found = read_predicted(predicted[0].predictions)[1]["dev"]
    assert [word for text in found.texts for word in text] == view.words
    assert found.texts[0][:2] == ("w0", "w1") and found.ids == view.ids


@pytest.mark.parametrize("metric", [*NAMES_OF_SCORES, "accuracy"])
def test_any_score_is_compared(predicted, metric):
    one, two = predicted[0], predicted[2]
    file = one.predictions.rpartition("-predictions")[0] + ".jsonl"
    runs = [choose_run(f"{file}#{record.key}") for record in (one, two)]
    found = compare(*runs, split="test", metric=metric, samples=200)
    scores = [record.scores[f"test/{metric}"] for record in (one, two)]
    assert [found.score_a, found.score_b] == pytest.approx(scores, rel=1e-6)
    assert (found.metric, found.difference) == (metric, pytest.approx(scores[0] - scores[1]))
    assert found.low < found.high


def test_a_side_file_of_an_earlier_version_has_no_probabilities(swept, tmp_path):
    out = tmp_path / "r.jsonl"
    for record in swept([spec(head=head, epochs=1) for head in ("last", "mean")], predictions=True):
        table = pq.read_table(record.predictions)
        pq.write_table(table.select(["split", "id", "gold", "predicted"]), record.predictions)
    unsealed_records(out)
    runs = [choose_run(f"{out}#head={head}") for head in ("last", "mean")]
    assert compare(*runs, samples=100).metric == "span-f1"
    with pytest.raises(RecordError, match=r"seed 0: ece scores probabilities.* are classes"):
        compare(*runs, metric="ece", samples=100)
    with pytest.raises(RecordError, match=r"spearman scores values.* are classes; choose from: sp"):
        compare(*runs, metric="spearman", samples=100)


def test_labels_that_train_does_not_have(tmp_path):
    plant(tmp_path, "train")
    plant(tmp_path, "dev", sentences=30, seed=1, names=NEW)
    result = fit(spec(epochs=3), location=Location(cache=tmp_path))
    view = open_features(MODEL, TASK, None, Location(cache=tmp_path)).view("dev")
    unseen = view.targets >= len(NAMES)
    assert 10 < unseen.sum() == result.scores["dev/unseen rows"]
    rows = result.probabilities["dev"].scores
    assert np.isnan(rows["loss"][unseen]).all() and not rows["right"][unseen].any()
    known = rows["loss"][~unseen].astype(float).mean()
    assert result.scores["dev/loss"] == pytest.approx(known)
    assert result.probabilities["dev"].probabilities.shape == (len(view), len(NAMES))
    assert (rows["brier"][unseen] >= 1).all()


def test_probes_of_depths_keep_predictions_and_recorded_ones_are_not_trained_for_them(
    words, tmp_path
):
    plan = [spec(head="mean", depth=1)]
    ways = {"out": tmp_path / "r.jsonl", "location": words}
    bare = sweep(plan, **ways, predictions=False)
    assert bare[0].predictions is None and sweep(plan, **ways) == bare
    assert sweep(plan, **ways, predictions=True)[0].predictions is not None
    more = sweep([*plan, spec(head="mean", depth=0)], **ways)
    assert all(record.predictions for record in more)
    whole = [spec(head="mean")]
    assert sweep(whole, **ways | {"out": tmp_path / "w.jsonl"})[0].predictions is None
    assert sweep(whole, **ways, predictions="new")[0].predictions is not None


@pytest.mark.parametrize("task", ["glue/rte", "glue/stsb"])
def test_texts_and_numbers(texts, swept, tmp_path, task):
    plan = [spec(task=task, head=head, epochs=3) for head in ("last", "mean")]
    records = swept(plan, location=texts, predictions=True)
    found = read_predicted(records[0].predictions)[1]["test"]
    view = open_features(MODEL, task, None, texts).view("test")
    assert list(found.texts) == view.texts and found.ids == view.ids
    if task == "glue/rte":
        rows = pandas.read_parquet(records[0].predictions).query("split == 'test'")
        p = np.stack([one[0] for one in rows["probabilities"]]).astype(float)
        gold = np.array([one[0] for one in rows["gold"]])
        classes = np.array(view.labels.names)
        expected = sklearn.log_loss(gold, p / p.sum(1, keepdims=True), labels=classes)
        assert records[0].scores["test/loss"] == pytest.approx(expected, rel=3e-3)
        return
    assert found.probabilities is None and found.row_scores is None
    expected = sklearn.mean_squared_error(found.gold, found.predicted)
    assert records[0].scores["test/loss"] == pytest.approx(expected)
    assert "test/ece" not in records[0].scores
    runs = [choose_run(f"{tmp_path / 'r.jsonl'}#head={head}") for head in ("last", "mean")]
    compared = compare(*runs, metric="loss", samples=200)
    scores = [record.scores["test/loss"] for record in records]
    assert [compared.score_a, compared.score_b] == pytest.approx(scores)
    with pytest.raises(RecordError, match=r"ece scores probabilities.* values; choose from: spear"):
        compare(*runs, metric="ece", samples=100)
    with pytest.raises(OptionError, match="are the same run"):
        compare(runs[0], runs[0], metric="loss")


@pytest.fixture
def grouped(tmp_path):
    """Train and dev know documents of 10 sentences, and all splits know prompts."""
    for split in ("train", "dev", "test"):
        entry = plant(tmp_path / "cache", split)
        ids = range(len(entry.examples))
        store_groups(entry, [f"{split} {n % 7}" for n in ids], "prompt")
        if split != "test":
            store_groups(entry, [f"{split}#{n // 10}" for n in ids])
    return Location(cache=tmp_path / "cache")


def test_sentences_are_written_with_what_they_belong_to(grouped, swept):
    def groups(name, split="dev", **options):
        """Return the column, and the group of each sentence by its number in its split."""
        (record,) = swept([spec(**options)], name, location=grouped, predictions=True)
        found = read_predicted(record.predictions)[1][split]
        numbers = [int(one.partition("-")[2]) for one in found.ids]
        return found.grouped_by, dict(zip(numbers, found.groups, strict=bool(found.groups)))

    # documents where they are known, also in a dev that is cut from what is fitted on
    whole, held = groups("whole"), groups("held", fit_on="dev", hold_out=0.3)
    for column, found in (whole, held):
        assert (column, found) == ("document", {n: f"dev#{n // 10}" for n in found})
    assert len(whole[1]) == 60 and 0 < len(held[1]) < 20
    assert groups("whole", "test") == ("", {})
    # and first of all the column that the user names
    for split in ("dev", "test"):
        column, found = groups("named", split, group="prompt", select="cv:3")
        assert (column, found) == ("prompt", {n: f"{split} {n % 7}" for n in found})
