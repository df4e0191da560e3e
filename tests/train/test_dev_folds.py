"""Nested selection: nothing that is reported of a sentence was chosen by it."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

from probekit.base.selection import Selection
from probekit.errors import OptionError
from probekit.features import Location, open_features
from probekit.metrics import METRICS
from probekit.results.summaries.diagnosis import marks
from probekit.train.dev_folds import DevFolds
from probekit.train.sampling import fold_numbers, held_out, hold_out, make_parts
from probekit.train.scoring import gold_of
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.search import TRIAL_SELECT
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, TASK, plant

NOISE = {"shuffled": True, "names": ("A", "B")}


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Train and a small dev whose labels have nothing to do with the rows."""
    root = tmp_path_factory.mktemp("noise")
    plant(root, **NOISE)
    plant(root, "dev", sentences=15, seed=1, **NOISE)
    return Location(cache=root)


@pytest.fixture(scope="module")
def dev(noise):
    return open_features(MODEL, TASK, "ner", noise).view("dev")


def pick(guesses, owners):
    """Return, of each row, what the guess that owns it says."""
    return np.stack(guesses)[owners, np.arange(len(owners))]


def spec(**options):
    return TrainSpec(model=MODEL, task=TASK, **options)


def test_the_best_of_many_on_noise_is_optimistic_and_nested_is_not(dev):
    """Accuracy of the best of 30 guesses, 150 times: chance is where half is right."""
    metric, rng = METRICS["accuracy"], np.random.default_rng(5)
    folds, scorer = DevFolds(dev, metric, 5), metric(gold_of(dev, metric))
    plain, nested = [], []
    for _ in range(150):
        guesses = rng.integers(0, 2, (30, len(dev)))
        scores = [scorer.score(one)["accuracy"] for one in guesses]
        by_fold = np.array([folds.scores(one) for one in guesses])
        chosen = by_fold.argmax(0).tolist()
        pooled = pick(guesses, folds.owners(chosen))
        plain.append(max(scores))
        nested.append(scorer.score(pooled)["accuracy"])
    error = np.std(nested) / np.sqrt(len(nested))
    assert abs(np.mean(nested) - 0.5) < 3 * error
    assert np.mean(plain) - 0.5 > 10 * error


def test_folds_are_of_whole_sentences(dev):
    numbers = fold_numbers(dev.n_examples, 4)
    assert sorted(np.bincount(numbers)[1:]) == [3, 4, 4, 4]
    folds = DevFolds(dev, METRICS["accuracy"], 4)
    found = folds.owners([0, 1, 2, 3])
    np.testing.assert_array_equal(found, np.repeat(numbers - 1, dev.lengths))


@pytest.mark.parametrize("head", ["last", "scalar-mix"])
def test_a_solver_chooses_a_strength_for_every_fold(noise, dev, head):
    """Against fits of every strength alone, chosen by hand."""
    found = fit(spec(head=head, select="nested:3"), location=noise, device="cpu")
    strengths = found.diagnosis["strengths"]
    if head == "scalar-mix":  # other starts stand beside what is chosen: see that nothing is gained
        assert len(found.diagnosis["fold_strengths"]) == 3
        plain = fit(spec(head=head, select="dev"), location=noise, device="cpu")
        assert found.diagnosis["selection_score"] == plain.eval_score
        assert found.test_score == plain.test_score and found.weights == plain.weights
        return
    fits = [fit(spec(head=head, l2=one), location=noise, device="cpu") for one in strengths]
    each = [one.predictions["dev"] for one in fits]
    folds = DevFolds(dev, METRICS["span-f1" if "span" in str(found.scores) else "accuracy"], 3)
    scores = np.array([folds.scores(one) for one in each])
    chosen = [strengths.index(one) for one in found.diagnosis["fold_strengths"]]
    by_hand = []  # the path goes on while its weakest strength is the best so far
    for own in scores.T:
        stop = next(n for n in range(6, len(own) + 1) if n == len(own) or own[:n].argmax() < n - 1)
        by_hand.append(int(own[:stop].argmax()))
    assert chosen == by_hand
    owners = folds.owners(chosen)
    np.testing.assert_array_equal(found.predictions["dev"], pick(each, owners))
    kept = [one.probabilities["dev"].probabilities for one in fits]
    np.testing.assert_array_equal(found.probabilities["dev"].probabilities, pick(kept, owners))


def test_descent_chooses_a_checkpoint_for_every_fold(noise):
    options = {"head": "last", "fit": "adam", "epochs": 4, "lr": 0.05}
    gains = []
    for seed in range(6):
        plain, nested = (
            fit(spec(seed=seed, select=one, **options), location=noise, device="cpu")
            for one in ("dev", "nested:5")
        )
        assert nested.diagnosis["selection_score"] == plain.eval_score
        assert nested.curve == plain.curve and nested.best_step == plain.best_step
        gains.append(plain.eval_score - nested.eval_score)
    assert min(gains) >= 0 < max(gains)


def test_the_record_says_that_it_was_nested_and_has_no_mark(noise, tmp_path):
    plan = [spec(head="last", select=one) for one in ("dev", "nested:4")]
    plain, nested = sweep(plan, out=tmp_path / "r.jsonl", location=noise, device="cpu")
    assert (plain.select, nested.select) == ("dev", "nested:4")
    assert "selected on the reported split" in marks([plain])
    assert "selected on the reported split" not in marks([nested])
    assert plain.key != nested.key


def test_a_rate_is_searched_on_a_part_of_train(noise, tmp_path):
    one = spec(head="last", fit="adam", epochs=1, lr="search", select="nested:4")
    out = tmp_path / "r.jsonl"
    (record,) = sweep([one], out=out, location=noise, device="cpu")
    assert record.select == "nested:4"
    assert record.diagnosis["search_select"] == TRIAL_SELECT
    assert f'"select": "{TRIAL_SELECT}"' in out.read_text()


@pytest.mark.parametrize("text", ["nested", "nested:1", "nested:x", "nested:0.2"])
def test_what_is_no_selection_is_refused(text):
    with pytest.raises(OptionError, match=r"nested:K \(folds of dev"):
        Selection.parse(text)


def test_more_folds_than_sentences_of_dev_are_refused(noise):
    with pytest.raises(OptionError, match="needs 16 sentences or more, and there are 15 in dev: "):
        fit(spec(head="last", select="nested:16"), location=noise, device="cpu")
    with pytest.raises(OptionError, match="nothing to choose"):
        fit(spec(head="last", select="nested:5", l2=1.0), location=noise, device="cpu")


GROUPS = np.array([4, 4, 4, 0, 9, 9, 2, 4, 0, 9, 7, 7])


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_groups_go_whole_to_folds_of_equal_size(folds):
    numbers = fold_numbers(len(GROUPS), folds, GROUPS)
    assert set(numbers) == set(range(1, folds + 1))
    assert all(len(set(numbers[group == GROUPS])) == 1 for group in set(GROUPS))
    reference = [len(held) for _, held in GroupKFold(folds).split(GROUPS, groups=GROUPS)]
    assert sorted(np.bincount(numbers)[1:]) == sorted(reference)


def test_a_share_is_of_groups():
    kept, held = hold_out(len(GROUPS), 0.4, GROUPS)
    chosen = held_out(len(GROUPS), 0.4, GROUPS)
    for part in (held, chosen):
        assert len(set(GROUPS[part])) == 2  # of five
        assert not set(GROUPS[part]) & set(np.delete(GROUPS, part))
    assert sorted([*kept, *held]) == list(range(len(GROUPS)))
    same = np.zeros(4, np.int64)
    with pytest.raises(OptionError, match=r"1 groups .* leaves one side empty"):
        hold_out(4, 0.5, same)
    with pytest.raises(OptionError, match="needs two groups"):
        held_out(4, 0.5, same)


def test_parts_keep_groups_together(dev):
    groups = np.arange(dev.n_examples) // 2
    parts = make_parts(replace(dev, groups=groups), Selection.parse("cv:3"))
    assert all(len(set(parts.judged[groups == one])) == 1 for one in set(groups))
