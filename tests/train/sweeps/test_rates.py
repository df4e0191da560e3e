"""Learning rates: those of groups of parameters, and those that a sweep searches."""

import math
from dataclasses import replace

import pytest

from probekit.errors import OptionError, RecordError
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.results import load_records, select
from probekit.results.tables import summarise, table
from probekit.train.baselines.held_against import check_plan
from probekit.train.sweeps import worker
from probekit.train.sweeps.fitting import LIMIT, search, settle_rates, trial_seeds, value_of
from probekit.train.sweeps.protocols import PROTOCOLS
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.specs import product
from tests.results.samples import make_record
from tests.train.sweeps.samples import spec


def settled(head="p32", decoder="linear", **options):
    one = spec(head=head, decoder=decoder, **options)
    return settle_rates(one, HEADS[head](), DECODERS[decoder]())


@pytest.mark.parametrize(
    ("head", "decoder", "options", "lr", "rates"),
    [
        ("last", "linear", {}, 1e-2, {}),
        # Hidden layers in the decoder stand less than a linear layer.
        ("last", "mlp", {}, 3e-3, {}),
        ("concat", "mlp", {}, 1e-3, {}),
        ("p32", "linear", {}, 1e-2, {"mixing": 0.2}),
        ("scalar-mix", "crf", {}, 1e-2, {"mixing": 0.2, "transitions": 0.1}),
        ("dwatt", "crf", {}, 1e-3, {"mixing": 1e-3, "transitions": 0.1}),
        # A number is the rate of weights, and of groups without a default.
        ("dwatt", "crf", {"lr": 2e-3}, 2e-3, {"mixing": 2e-3, "transitions": 0.1}),
        ("p32", "linear", {"lr": 1e-3}, 1e-3, {"mixing": 0.2}),
        ("p32", "crf", {"rates": (("transitions", 1),)}, 1e-2, {"mixing": 0.2, "transitions": 1}),
        ("p32", "crf", {"fusion_from": "x", "freeze_fusion": True}, 1e-2, {"transitions": 0.1}),
        # One rate is the paper's way.
        (
            "p32", "crf", {"lr": 1e-3, "as_published": True}, 1e-3,
            {"mixing": 1e-3, "transitions": 1e-3},
        ),
        ("p32", "linear", {"as_published": True, "rates": (("mixing", 1),)}, 1e-2, {"mixing": 1}),
    ],
)  # fmt: skip
def test_every_group_has_a_rate(head, decoder, options, lr, rates):
    found = settled(head, decoder, **options)
    assert (found.lr, dict(found.rates), found.as_published) == (lr, rates, False)
    assert found.rate_from == "fixed"
    assert settle_rates(found, HEADS[head](), DECODERS[decoder]()) == found


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "sae-probes"])
def test_a_protocol_has_one_rate_as_published_for_all_groups(name):
    options = {**PROTOCOLS[name].options}
    for head in HEADS:
        found = settled(head, "crf", **options)
        assert {found.lr, *dict(found.rates).values()} == {options["lr"]}
        assert found.rate_from == "published"


@pytest.mark.parametrize(
    ("head", "rate", "options", "message"),
    [
        ("last", "mixing", {}, r"--lr mixing=0\.1: last .* trains weights\. Leave"),
        ("p32", "mix", {}, "no parameters called mix; it trains weights and mix"),
        (
            "p32",
            "mixing",
            {"fusion_from": "saved", "freeze_fusion": True},
            "its fusion frozen, has no parameters called mixing",
        ),
    ],
)
def test_a_group_that_is_not_trained_has_no_rate(head, rate, options, message):
    with pytest.raises(OptionError, match=message):
        settled(head, rates=((rate, 0.1),), **options)


def test_groups_step_at_their_rates(words):
    options = {"head": "p32", "decoder": "crf", "epochs": 1, "lr": 1e-3}
    slow, fast, tenth, default = (
        fit(spec(**options, rates=rates), location=words).state
        for rates in (*((("transitions", rate),) for rate in (1e-9, 0.5, 0.1)), ())
    )
    for name in ("transitions", "start", "end"):
        assert slow[f"decoder.{name}"].abs().max() < 1e-7
        assert fast[f"decoder.{name}"].abs().max() > 0.3
    assert default["decoder.transitions"].equal(tenth["decoder.transitions"])


def test_runs_with_other_rates_are_other_runs_and_rows(swept):
    ways = ((), (("mixing", 0.1),), (("mixing", 0.2),))
    records = swept([spec(head="p32", epochs=1, rates=rates) for rates in ways])
    # the default and the same rate by hand are one run
    assert [dict(r.rates) for r in records] == [{"mixing": 0.2}, {"mixing": 0.1}]
    header, _, first, second = table(summarise(records)).splitlines()[:4]
    assert ["rates" in header, "rate " in header] == [True, False]
    assert "mixing=0.1" in first and "mixing=0.2" in second


FIRST = [1e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1]
"""What is tried first of a head whose rate is 1e-2."""


def peak(rate, sign=1):
    """Return a score with its best at a rate, and a little less with every decade from there."""
    return lambda lr: sign * (0.9 - 0.1 * abs(math.log10(lr / rate)))


def searched(score, *, heads=("p32",), seeds=(0, 1), **changes):
    """Search with a score by learning rate in place of training."""
    rounds = []

    def train(plan):
        rounds.append(list(plan))
        return {one: record(one, score(one.lr)) for one in plan}

    def record(one, value):
        outcome = {"diverged": True, "eval_score": 0.0} if value is None else {"eval_score": value}
        return make_record(one.head, one.seed, lr=one.lr, **outcome | changes)

    plan = [spec(head=head, lr="search", seed=seed) for head in heads for seed in seeds]
    found, trails = search(plan, train)
    return [found[one] for one in plan], trails[found[plan[0]]], rounds


def test_the_first_grid_is_all_where_the_best_lies_inside():
    specs, trail, rounds = searched(peak(1e-2))
    assert [(one.lr, one.rate_from, one.trial) for one in specs] == [(1e-2, "searched", False)] * 2
    (trials,) = rounds
    assert [(one.lr, one.seed) for one in trials] == [(lr, s) for lr in FIRST for s in (1000, 1001)]
    assert all(one.trial for one in trials)
    assert trail["search_rates"] == FIRST and "edge" not in trail
    assert trail["search_scores"] == pytest.approx([peak(1e-2)(lr) for lr in FIRST])


@pytest.mark.parametrize(("best", "beyond"), [(3.16, [0.316, 1, 3.16, 10]), (3.16e-5, None)])
def test_the_grid_widens_until_the_best_lies_strictly_inside(best, beyond):
    """1.5 decades above the first grid, and as far below."""
    specs, trail, rounds = searched(peak(best))
    assert {one.lr for one in specs} == {best}
    rates = trail["search_rates"]
    assert rates[0] < best < rates[-1] and len(rates) == len(FIRST) + 4
    assert [len(trials) for trials in rounds] == [10, 2, 2, 2, 2]
    if beyond:
        assert rates[5:] == beyond
    assert "edge" not in trail


@pytest.mark.parametrize(("best", "edge"), [(1e9, "highest"), (1e-20, "lowest")])
def test_a_best_beyond_the_limit_is_said_to_lie_at_the_edge(best, edge, caplog):
    specs, trail, _ = searched(peak(best))
    assert specs[0].lr == value_of(-4 + (LIMIT if edge == "highest" else -LIMIT))
    assert trail["edge"] == edge
    assert f"is the {edge} that a search tries" in caplog.text


@pytest.mark.parametrize(
    ("score", "changes", "lr", "scores"),
    [
        # of equal scores the one nearest the default counts
        (lambda lr: 0.5, {}, 1e-2, [0.5] * 5),
        # a rate at which a run diverged is not chosen
        (lambda lr: lr if lr < 3e-2 else None, {}, 1e-2, [1e-3, 3.16e-3, 1e-2, None, None]),
        # where all diverge, smaller ones are tried
        (lambda lr: None, {}, value_of(-4 - LIMIT), None),
        # the smallest perplexity is the best
        (peak(1e-2, sign=-1), {"metric": "perplexity"}, 1e-2, None),
        # what selected is what counts
        (lambda lr: 0.5, {"diagnosis": {"selection_score": 0.9}}, 1e-2, [0.9] * 5),
    ],
)
def test_what_is_chosen_by_what(score, changes, lr, scores):
    specs, trail, _ = searched(score, **changes)
    assert {one.lr for one in specs} == {lr}
    assert scores in (None, trail["search_scores"])


def test_a_head_whose_decoder_has_hidden_layers_is_searched_around_their_rate():
    _, trail, _ = searched(peak(3.16e-3), heads=("concat-ffn",))
    assert trail["search_rates"] == [3.16e-4, 1e-3, 3.16e-3, 1e-2, 3.16e-2]


def test_trials_take_no_seed_that_is_reported():
    assert trial_seeds([0, 1]) == [1000, 1001]
    assert trial_seeds([1000, 1002]) == [1001, 1003]
    _, _, rounds = searched(peak(1e-2), seeds=(1000,))
    assert {one.seed for one in rounds[0]} == {1001, 1002}


def test_a_head_s_rate_depends_on_no_other_head():
    best = {"p32": 1e-2, "dwatt": 1e-4}

    def by_head(plan):
        return {
            one: make_record(one.head, one.seed, lr=one.lr, eval_score=peak(best[one.head])(one.lr))
            for one in plan
        }

    both = [spec(head=head, lr="search") for head in best]
    together = search(both, by_head)[0]
    assert [together[one].lr for one in both] == [1e-2, 1e-4]
    for one in both:
        assert search([one], by_head)[0][one] == together[one]


def test_a_sweep_searches_reports_and_resumes(swept, tmp_path, monkeypatch):
    """In 60 steps, `concat` reads the planted labels from 1e-2 on: the end of its grid."""
    concat = spec(head="concat", lr="search", epochs=4, batch_size=4, evals=1)
    plan = [spec(lr=1e-2, epochs=2, evals=1), *product(concat, {"seed": [0, 1]})]
    records = swept(plan)
    assert [(one.head, one.seed, one.rate_from) for one in records] == [
        ("last", 0, "fixed"), ("concat", 0, "searched"), ("concat", 1, "searched"),
    ]  # fmt: skip
    trail = records[1].diagnosis
    rates, scores = trail["search_rates"], trail["search_scores"]
    assert rates[:5] == (1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2)
    assert records[1].lr >= 1e-2 and rates[-1] > records[1].lr
    assert max(scores) == scores[rates.index(records[1].lr)] > scores[0]
    assert records[2].diagnosis == trail and "search_rates" not in records[0].diagnosis

    everything = load_records(tmp_path / "r.jsonl")
    assert len(everything) == len(records) + 2 * len(rates)
    assert {one.seed for one in everything if one.trial} == {1000, 1001}
    assert select(everything, []) == [one for one in everything if not one.trial]
    assert len(select(everything, ["trial=yes"])) == 2 * len(rates)
    header, _, first, second, *_ = table(summarise(records)).splitlines()
    assert " rate " in header and " fixed " in first and " searched " in second

    monkeypatch.setattr(worker, "fit_group", None)
    assert swept(plan) == records
    assert len(load_records(tmp_path / "r.jsonl")) == len(everything)
    assert swept([concat]) == [records[1]]


def test_a_run_that_was_there_is_noted_as_searched_and_not_trained_again(swept, tmp_path):
    one = spec(head="p32", lr="search", epochs=1, evals=1)
    (found,) = swept([one], "other")
    fixed = replace(one, lr=found.lr)
    (before,) = swept([fixed])
    assert before.rate_from == "fixed" and before.key == found.key
    (after,) = swept([one])
    assert after.rate_from == "searched" and after.train_seconds == before.train_seconds
    assert after.diagnosis["search_rates"] == found.diagnosis["search_rates"]
    (trial,) = swept([replace(fixed, seed=1000)])
    assert not trial.trial  # now it is reported
    assert trial in select(load_records(tmp_path / "r.jsonl"), [])


def test_what_needs_a_rate_that_is_known(words):
    with pytest.raises(
        OptionError, match=r"--lr search needs several runs, and this is a single one"
    ):
        fit(spec(lr="search"), location=words)
    with pytest.raises(OptionError, match="Search it first without --baselines"):
        check_plan([spec(lr="search")])


def test_a_file_of_trials_says_that_it_is_one():
    trials = [make_record(trial=True)]
    with pytest.raises(RecordError, match="all records are trials of a search"):
        select(trials, [])
    assert select(trials, ["trial=yes"]) == trials
    with pytest.raises(RecordError, match="trial is yes"):
        select(trials, ["trial=no"])
