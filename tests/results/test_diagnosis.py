"""What diagnoses say: each trouble once, where it is, and nothing where nothing is wrong."""

from dataclasses import replace

import pytest

from probekit.results.summaries.diagnosis import SAID_FROM, copied_texts, marks, notes
from tests.results.samples import make_record


def diagnosed(head="last", seed=0, depth=None, **diagnosis):
    return make_record(head, seed, depth=depth, diagnosis=diagnosis)


GOOD = {"one_class": False, "absent": 0, "single": 0, "best_is_last": False, "falling": False}
GOOD |= {"converged": True, "iterations": 12, "gradient": 1e-6, "tolerance": 1e-5, "starts": 3}
GOOD |= {"strength": 0.1, "strengths": [1, 0.1, 0.01], "strength_scores": [0.5, 0.6, 0.5]}


def test_nothing_is_said_where_nothing_is_wrong():
    records = [diagnosed(seed=seed, **GOOD) for seed in (0, 1)]
    records += [make_record(select=how, test_score=None) for how in ("cv:5", None)]
    names = ("converged", "edge", "one_class", "best_is_last", "falling", "absent")
    records += [make_record(select="dev", key="1", diagnosis=dict.fromkeys(names))]  # unknown
    assert marks(records) == () and notes(records) == [] and notes([]) == []


@pytest.mark.parametrize(
    ("changes", "mark"),
    [
        ({"diagnosis": {"converged": False}}, "not converged"),
        ({"diagnosis": {"edge": "weakest"}}, "best at the edge of the search (weakest)"),
        ({"diagnosis": {"edge": "highest"}}, "best at the edge of the search (highest)"),
        ({"diagnosis": {"one_class": True}}, "one class predicted"),
        ({"diagnosis": {"one_value": True}}, "one value predicted, or true"),
        ({"diagnosis": {"best_is_last": True}}, "best score is that of the last step"),
        ({"diagnosis": {"falling": True}}, "loss still falling at the end"),
        ({"select": "dev", "test_score": None}, "selected on the reported split"),
        ({"select": "dev by prompt", "test_score": None}, "selected on the reported split"),
        ({"diverged": True}, "diverged"),
    ],
)
def test_every_trouble_is_a_mark(changes, mark):
    assert marks([make_record(**{"diagnosis": GOOD} | changes)]) == (mark,)
    assert notes([make_record(**{"diagnosis": GOOD} | changes)]) == [f"* {mark}"]


def test_places_are_settings_depths_and_seeds():
    records = [
        diagnosed(head, seed, depth, converged=not (head == "last" and depth == 3 and seed < 2))
        for head in ("last", "p32")
        for seed in range(5)
        for depth in (1, 2, 3)
    ]
    assert notes(records) == ["* not converged in 2 of 30 runs (last, depth 3)"]


def test_many_settings_are_counted_and_all_of_them_are_all():
    heads = ("last", "mean", "p32", "concat", "dwatt", "laya")
    records = [diagnosed(head, best_is_last=head != "last") for head in heads]
    assert notes(records) == ["* best score is that of the last step in 5 of 6 runs"]
    assert notes(records[1:]) == ["* best score is that of the last step in all 5 runs"]
    (line,) = notes(records[:3])
    assert line == "* best score is that of the last step in 2 of 3 runs (mean; p32)"


def test_a_setting_is_named_with_its_options():
    records = [
        make_record("last", normalize=normalize, shots=k, diagnosis={"converged": k > 8})
        for normalize in ("none", "standardize")
        for k in (8, 32)
    ]
    settings = "last, 8 shots, raw; last, 8 shots, standardize"
    assert notes(records) == [f"* not converged in 2 of 4 runs ({settings})"]


def test_troubles_follow_each_other_in_one_line():
    records = [
        make_record("last", diagnosis={"converged": False}, select="dev", test_score=None),
        make_record("p32", select="cv:5"),
    ]
    assert notes(records) == [
        "* not converged in 1 of 2 runs (last); selected on the reported split in 1 of 2 runs "
        "(last)"
    ]


def test_classes_that_a_draw_left_out_are_a_line_but_no_mark():
    records = [diagnosed(seed=seed, absent=3, single=2) for seed in (0, 1)]
    assert marks(records) == ()
    assert notes(records) == ["drawn without 3 classes; 2 classes have one example"]
    some = [*records, diagnosed(seed=2, absent=1, single=0), diagnosed(seed=3)]
    assert notes(some) == [
        "drawn without 1 to 3 classes in 3 of 4 runs; 2 classes have one example in 2 of 4 runs"
    ]
    assert notes([diagnosed(absent=1, single=1)]) == [
        "drawn without 1 class; 1 class has one example"
    ]


def test_heads_that_no_seed_changes_are_said():
    solved = [make_record("last", seed, fitter="lbfgs", shots=None) for seed in (0, 1)]
    assert notes(solved) == ["last is solved on all of train, so every seed gives the same score"]
    assert notes(solved[:1]) == []
    assert notes([replace(one, shots=8) for one in solved]) == []
    assert notes([replace(one, fitter="adam") for one in solved]) == []


def test_fewer_folds_are_counted():
    records = [diagnosed(seed=0, folds=3), diagnosed(seed=1, folds=4), diagnosed(seed=2)]
    assert notes(records) == [
        "2 of 3 runs used 3 to 4 folds: no class of their draws has more examples"
    ]


def test_a_strength_that_nothing_chose_is_said():
    given = [make_record("last", fitter="lbfgs", l2=strength) for strength in (0.1, 1.0)]
    chosen = make_record("last", fitter="lbfgs", l2=None, shots=8)
    steps = make_record("last", fitter="adam", l2=0.1)
    assert "L2 fixed at 1, 0.1; omit --l2 to tune it" in notes([*given, chosen])
    assert not any("fixed" in line for line in notes([chosen, steps]))


# texts that occur twice


def counted(texts, normalised, **sharing):
    return {"train": {"texts": texts, "exact": 0, "normalised": normalised, **sharing}}


def record(seed=0, task="atis", protocol="full", **duplicates):
    return make_record("last", seed, task=task, protocol=protocol, duplicates=duplicates)


def test_the_line_names_share_split_and_option():
    own = record(test=counted(500, 34))
    line = "6.8 % of test texts are in train too; leave them out with --drop-duplicates"
    assert copied_texts([own]) == [line]
    assert notes([own]) == [line] and marks([own]) == ()  # nothing is wrong with the run


def test_splits_are_one_line_and_so_are_tasks():
    one, other = record(dev=counted(500, 52), test=counted(900, 45)), record(task="conll")
    (line,) = copied_texts([one])
    assert line.startswith("10.4 % of dev texts and 5.0 % of test texts are in train too;")
    assert copied_texts([one, other])[0].startswith("10.4 % of atis dev texts and 5.0 % of atis")
    third = record(task="conll", dev=counted(100, 6))
    assert "5.0 % of atis test texts and 6.0 % of conll dev" in copied_texts([one, third])[0]


def test_draws_that_differ_have_a_range():
    records = [record(seed, dev=counted(1000, count)) for seed, count in enumerate((2, 31, 8))]
    assert copied_texts(records)[0].startswith("0.2 to 3.1 % of dev texts are")


@pytest.mark.parametrize("texts", [1000, 100_000])
def test_little_is_not_said(texts):
    assert copied_texts([record(dev=counted(texts, int(texts * SAID_FROM) - 1))]) == []
    assert copied_texts([record(dev=counted(texts, int(texts * SAID_FROM)))]) != []
    assert copied_texts([record(), record(dev=counted(0, 0)), make_record()]) == []


def test_pairs_share_a_text():
    pairs = record(task="glue/stsb", dev=counted(1500, 6, sharing=253))
    (line,) = copied_texts([pairs])
    assert line == (
        "16.9 % of dev pairs share a text with train; leave its pairs out with --drop-duplicates"
    )


def test_train_is_said_where_a_part_of_it_chose():
    own = record(train=counted(200, 20))
    assert copied_texts([own]) == [
        "10.0 % of train texts occur twice or more; --drop-duplicates keeps equal ones together"
    ]
    (pairs,) = copied_texts([record(train=counted(9, 0, sharing=3))])
    assert pairs.startswith("33.3 % of train pairs share a text with another one;")


def test_runs_without_duplicates_and_splits_that_choose_are_not_said():
    without = record(protocol="full, without duplicates", dev=counted(100, 9))
    chooser = record(test={"dev": {"texts": 100, "exact": 9, "normalised": 9}})
    assert copied_texts([without, chooser]) == []
