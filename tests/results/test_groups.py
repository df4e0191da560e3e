"""Grouping over seeds: the right options tell records apart, in an order of values alone."""

import random

import pytest

from probekit.errors import RecordError, UnknownNameError
from probekit.results.record import Record
from probekit.results.summaries.grouping import (
    check_seeds,
    distinguishing,
    grouped,
    head_order,
    series,
)
from probekit.results.summaries.wording import OPTIONS
from tests.results.samples import HEADS, make_record


def test_options_are_the_inputs_of_a_record():
    outcomes = "eval_score eval_last best_epoch test_score scores curve weights raw_weights "
    outcomes += "class_weights diverged confusion n_params train_seconds predictions "
    outcomes += "version key seed rate_from trial diagnosis environment seen "
    outcomes += "initial_weights shares ablation ablated left_out n_backbone_params backbone_share "
    outcomes += "duplicates predictions_digest spec"
    assert set(OPTIONS) | set(outcomes.split()) == set(Record.__dataclass_fields__)


def test_order_depends_on_values_alone():
    records = [make_record(h, shots=k) for h in (*HEADS, "new") for k in (8, 64, 128, None)]
    expected = [(h, k) for h in [*head_order(), "new"] for k in (8, 64, 128, None)]
    expected = [key for key in expected if key[0] in (*HEADS, "new")]
    random.Random(0).shuffle(records)
    assert list(grouped(records, ["head", "shots"])) == expected


def test_unknown_option():
    with pytest.raises(UnknownNameError, match="Did you mean 'shots'"):
        grouped([make_record()], ["shot"])


def test_only_what_tells_records_apart():
    records = [
        make_record(head, seed, lr=lr, normalize=normalize)
        for head, lr in (("last", 2e-3), ("dwatt", 5e-5))
        for normalize in ("standardize", "none")
        for seed in (0, 1)
    ]
    assert distinguishing(records, ["head"]) == ["normalize"]  # lr and layers follow from the head
    assert list(series(records)) == [
        "last, raw",
        "last, standardize",
        "dwatt, raw",
        "dwatt, standardize",
    ]
    assert list(series(records, given=["normalize"])) == ["last", "dwatt"]


def test_models_with_one_last_name_stay_apart():
    records = [make_record(model=model) for model in ("a/base", "b/base", "c/large")]
    assert list(series(records)) == ["p32, a/base", "p32, b/base", "p32, c/large"]


def test_a_repeated_seed_names_what_differs():
    records = [make_record(seed=0, lr=1e-3), make_record(seed=0, lr=1e-4)]
    with pytest.raises(RecordError, match=r"p32: 2 records share seeds.* differ in lr\."):
        check_seeds(records, "p32")
    check_seeds([make_record(seed=0), make_record(seed=1)], "p32")


def test_settings_tell_records_apart():
    records = [make_record(options=options) for options in ({"n": 2}, {"n": 1}, {})]
    assert list(series(records)) == ["p32, n=1", "p32, n=2", "p32, defaults"]
    starts = ("wikiann/de ner 1a2b3c4d", "wikiann/en ner 5e6f7a8b", None)
    records = [make_record(init=init, freeze=bool(init)) for init in starts]
    assert list(series(records)) == [
        "p32, from wikiann/de ner 1a2b3c4d",
        "p32, from wikiann/en ner 5e6f7a8b",
        "p32, from scratch",
    ]


def test_a_pooling_is_not_taken_for_a_head():
    records = [make_record("mean", pooling=how) for how in ("mean", "cls", None)]
    assert list(series(records)) == ["mean, pooling cls", "mean, pooling mean", "mean, no pooling"]


def test_raw_layers_come_first():
    records = [make_record(normalize=how) for how in ("standardize", "layernorm", "none")]
    assert list(series(records)) == ["p32, raw", "p32, layernorm", "p32, standardize"]
