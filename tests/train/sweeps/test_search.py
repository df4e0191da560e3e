"""Searches: half decades that widen to the best, and a sweep that tries and reports them."""

import math
from dataclasses import replace

import pytest

from probekit.errors import OptionError, RecordError
from probekit.features import Location
from probekit.results import load_records, select
from probekit.results.tables import summarise, table
from probekit.train.baselines.held_against import check_plan
from probekit.train.sweeps import worker as task_module
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.search import LIMIT, Ladder, search, trial_seeds, value_of
from probekit.train.sweeps.specs import TrainSpec, product
from tests.planted import MODEL, TASK, plant_all
from tests.results.samples import make_record

FIRST = [1e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1]
"""What is tried first of a head whose rate is 1e-2."""


def spec(**options):
    return TrainSpec(**{"model": MODEL, "task": TASK, "label": "ner", "head": "p32"} | options)


def peak(rate, sign=1):
    """Return a score with its best at a rate, and a little less with every decade from there."""
    return lambda lr: sign * (0.9 - 0.1 * abs(math.log10(lr / rate)))


class Trainer:
    """Stands in for training: a score by learning rate and weight decay."""

    def __init__(self, score, **options):
        self.score, self.options, self.rounds = score, options, []

    def __call__(self, plan):
        self.rounds.append(list(plan))
        return {one: self._record(one) for one in plan}

    def _record(self, one):
        score = self.score(one.lr if one.weight_decay is None else one.weight_decay)
        changes = {"diverged": True, "eval_score": 0.0} if score is None else {"eval_score": score}
        return make_record(one.head, one.seed, lr=one.lr, **self.options | changes)


def searched(score, *, lr="search", seeds=(0, 1), **options):
    plan = [spec(lr=lr, seed=seed, **options) for seed in seeds]
    train = Trainer(score)
    found, trails = search(plan, train)
    return [found[one] for one in plan], trails, train


def test_values_are_half_decades_with_three_digits():
    assert [value_of(n) for n in (-7, -6, -5, 0, 1)] == [3.16e-4, 1e-3, 3.16e-3, 1.0, 3.16]


def test_the_first_grid_is_all_where_the_best_lies_inside():
    specs, trails, train = searched(peak(1e-2))
    assert [one.lr for one in specs] == [1e-2, 1e-2]
    assert {one.rate_from for one in specs} == {"searched"}
    (trials,) = train.rounds
    assert [(one.lr, one.seed) for one in trials] == [(lr, s) for lr in FIRST for s in (1000, 1001)]
    assert all(one.trial for one in trials) and not any(one.trial for one in specs)
    assert trails[specs[0]]["search_rates"] == FIRST
    assert trails[specs[0]]["search_scores"] == pytest.approx([peak(1e-2)(lr) for lr in FIRST])
    assert "edge" not in trails[specs[0]]


@pytest.mark.parametrize(("best", "beyond"), [(3.16, [0.316, 1, 3.16, 10]), (3.16e-5, None)])
def test_the_grid_widens_until_the_best_lies_strictly_inside(best, beyond):
    """1.5 decades above the first grid, and as far below."""
    specs, trails, train = searched(peak(best))
    assert {one.lr for one in specs} == {best}
    rates = trails[specs[0]]["search_rates"]
    assert rates[0] < best < rates[-1] and len(rates) == len(FIRST) + 4
    assert [len(trials) for trials in train.rounds] == [10, 2, 2, 2, 2]
    if beyond:
        assert rates[5:] == beyond
    assert "edge" not in trails[specs[0]]


@pytest.mark.parametrize(("best", "edge"), [(1e9, "highest"), (1e-20, "lowest")])
def test_a_best_beyond_the_limit_is_said_to_lie_at_the_edge(best, edge, caplog):
    specs, trails, _ = searched(peak(best))
    limit = LIMIT if edge == "highest" else -LIMIT
    assert specs[0].lr == value_of(-4 + limit)
    assert trails[specs[0]]["edge"] == edge
    assert f"is the {edge} that a search tries" in caplog.text


def test_of_equal_scores_the_one_nearest_the_default_counts():
    specs, _, train = searched(lambda lr: 0.5)
    assert specs[0].lr == 1e-2 and len(train.rounds) == 1


def test_a_rate_at_which_a_run_diverged_is_not_chosen():
    specs, trails, _ = searched(lambda lr: lr if lr < 3e-2 else None)
    assert specs[0].lr == 1e-2
    assert trails[specs[0]]["search_scores"] == [1e-3, 3.16e-3, 1e-2, None, None]


def test_where_all_diverge_smaller_ones_are_tried():
    ladder = Ladder(start=-4, scores=dict.fromkeys(range(-6, -1)))
    assert ladder.missing == [-7]
    assert searched(lambda lr: None)[0][0].lr == value_of(-4 - LIMIT)


def test_the_smallest_perplexity_is_the_best():
    plan = [spec(lr="search")]
    found, _ = search(plan, Trainer(peak(1e-2, sign=-1), metric="perplexity"))
    assert found[plan[0]].lr == 1e-2


def test_what_selected_is_what_counts():
    scores = {"selection_score": 0.9}
    train = Trainer(lambda lr: 0.5, diagnosis=scores)
    plan = [spec(lr="search")]
    trails = search(plan, train)[1]
    assert next(iter(trails.values()))["search_scores"] == [0.9] * 5


def test_trials_take_no_seed_that_is_reported():
    assert trial_seeds([0, 1]) == [1000, 1001]
    assert trial_seeds([1000, 1002]) == [1001, 1003]
    _, _, train = searched(peak(1e-2), seeds=(1000,))
    assert {one.seed for one in train.rounds[0]} == {1001, 1002}


def test_a_head_s_rate_depends_on_no_other_head():
    def by_head(plan):
        best = {"p32": 1e-2, "dwatt": 1e-4}
        return {
            one: make_record(one.head, one.seed, lr=one.lr, eval_score=peak(best[one.head])(one.lr))
            for one in plan
        }

    both = [spec(head=head, lr="search") for head in ("p32", "dwatt")]
    together = search(both, by_head)[0]
    assert [together[one].lr for one in both] == [1e-2, 1e-4]
    for one in both:
        assert search([one], by_head)[0][one] == together[one]


def test_what_is_not_searched_stays_as_it_is():
    plan = [spec(lr=1e-3), spec()]
    found, trails = search(plan, Trainer(peak(1)))
    assert found == {one: one for one in plan} and trails == {}


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    return Location(cache=plant_all(tmp_path_factory.mktemp("cache")))


def test_a_sweep_searches_reports_and_resumes(location, tmp_path, monkeypatch, caplog):
    """In 60 steps, `concat` reads the planted labels from 1e-2 on: the end of its grid."""
    out = tmp_path / "runs.jsonl"
    concat = spec(head="concat", lr="search", epochs=4, batch_size=4, evals=1)
    last = spec(head="last", lr=1e-2, epochs=2, evals=1)
    plan = [last, *product(concat, {"seed": [0, 1]})]
    records = sweep(plan, out=out, location=location)
    assert [(one.head, one.seed) for one in records] == [
        ("last", 0), ("concat", 0), ("concat", 1),
    ]  # fmt: skip
    assert [one.rate_from for one in records] == ["fixed", "searched", "searched"]
    trail = records[1].diagnosis
    rates, scores = trail["search_rates"], trail["search_scores"]
    assert rates[:5] == (1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2)
    assert records[1].lr >= 1e-2 and rates[-1] > records[1].lr
    assert max(scores) == scores[rates.index(records[1].lr)] > scores[0]
    assert records[2].diagnosis == trail and "search_rates" not in records[0].diagnosis

    everything = load_records(out)
    assert len(everything) == len(records) + 2 * len(rates)
    assert {one.seed for one in everything if one.trial} == {1000, 1001}
    assert select(everything, []) == [one for one in everything if not one.trial]
    assert len(select(everything, ["trial=yes"])) == 2 * len(rates)
    header, _, first, second, *_ = table(summarise(records)).splitlines()
    assert " rate " in header and " fixed " in first and " searched " in second

    monkeypatch.setattr(task_module, "fit_group", None)
    assert sweep(plan, out=out, location=location) == records
    assert len(load_records(out)) == len(everything)
    alone = sweep([concat], out=out, location=location)
    assert alone == [records[1]]


def test_a_run_that_was_there_is_noted_as_searched_and_not_trained_again(location, tmp_path):
    out = tmp_path / "runs.jsonl"
    one = spec(lr="search", epochs=1, evals=1)
    (found,) = sweep([one], out=tmp_path / "other.jsonl", location=location)
    fixed = replace(one, lr=found.lr)
    (before,) = sweep([fixed], out=out, location=location)
    assert before.rate_from == "fixed" and before.key == found.key
    (after,) = sweep([one], out=out, location=location)
    assert after.rate_from == "searched" and after.train_seconds == before.train_seconds
    assert after.diagnosis["search_rates"] == found.diagnosis["search_rates"]
    (trial,) = sweep([replace(fixed, seed=1000)], out=out, location=location)
    assert not trial.trial  # now it is reported
    assert trial in select(load_records(out), [])


def test_one_run_cannot_search(location):
    with pytest.raises(OptionError, match=r"--lr search takes several runs, and this is one"):
        fit(spec(lr="search"), location=location)


def test_baselines_need_a_rate_that_is_known():
    with pytest.raises(OptionError, match="search it first, without --baselines"):
        check_plan([spec(lr="search")])


def test_a_file_of_trials_says_that_it_is_one():
    trials = [make_record(trial=True)]
    with pytest.raises(RecordError, match="all records are trials of a search"):
        select(trials, [])
    assert select(trials, ["trial=yes"]) == trials
    with pytest.raises(RecordError, match="trial is yes"):
        select(trials, ["trial=no"])
