"""Specs: values that are refused, normal forms, products, and what runs are called."""

from dataclasses import replace

import pytest

from probekit.errors import OptionError, UnknownNameError
from probekit.train.sweeps.specs import product
from probekit.train.sweeps.sweeping import run_names
from tests.train.sweeps.samples import spec


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shots": -1}, r"--shots must be a whole number of at least 0; found -1"),
        ({"shots": 0}, r"--shots 0 trains on nothing: .* --start DIR"),
        ({"fraction": 0.0}, r"--fraction 0 trains on nothing: .* --start DIR"),
        ({"fraction": 0, "fusion_from": "x"}, r"--fraction 0 trains on nothing"),
        ({"fraction": -0.1}, r"--fraction must be a number from 0 to 1; found -0\.1"),
        ({"shots": 8, "fraction": 0.5}, "choose one"),
        ({"fraction": 1.5}, r"--fraction must be a number from 0 to 1; found 1\.5"),
        ({"epochs": 2.5}, "--epochs must be a whole number"),
        ({"batch_size": True}, "batch_size must be a whole number"),
        ({"seed": -1}, "--seed must be"),
        ({"lr": 0}, "--lr must be a number above 0, or search; found 0"),
        ({"rates": (("mixing", "x"),)}, "--lr must be a number above 0 for mixing; found 'x'"),
        ({"rates": (("mixing", 1.0), ("mixing", 2.0))}, "one run has one rate of mixing"),
        ({"rates": (("weights", 1.0),)}, r"write the number alone, --lr 1\.0"),
        ({"lr": "serach"}, "--lr must be a number above 0, or search; found 'serach'"),
        (
            {"lr": "search", "shots": 0, "init_from": "x"},
            "--lr search is for training, and here noth",
        ),
        ({"lr": "search", "fit": "lbfgs"}, "--fit lbfgs solves for the optimum and takes no --lr"),
        ({"weight_decay": "search"}, "weight_decay must be 0 or more; found 'search'"),
        ({"rates": (("mixing", 0.1),), "fit": "ridge"}, "--fit ridge solves .* takes no --lr"),
        ({"rate_from": "guessed"}, "unknown origin of a rate 'guessed'"),
        ({"lr": float("nan")}, "--lr must be"),
        ({"hold_out": 1}, "--hold-out must be a number between 0 and 1"),
        ({"select": "held-out"}, r"--select held-out needs a held-out split"),
        ({"weight_decay": -1}, "weight_decay must be 0 or more"),
        ({"weight_decay": 0.1, "optimizer": "adam"}, "weight_decay: the optimizer adam has none"),
        ({"warmup": 1}, "warmup must be a number from 0 to below 1; found 1"),
        ({"warmup": 0.1, "fit": "lbfgs"}, "--fit lbfgs solves .* takes no warmup"),
        ({"depth": -1}, "^depth must be"),
        ({"normalize": "l2"}, "normaliz"),
        ({"pooling": "max"}, "unknown --pooling 'max'"),
        ({"head": "concatt"}, "Did you mean 'concat'"),
        ({"decoder": "lin"}, "unknown decoder"),
        ({"freeze_fusion": True}, "freeze_fusion needs a fusion to freeze"),
        ({"freeze_fusion": True, "init_from": "x"}, "freeze_fusion needs a fusion to freeze"),
        ({"fusion_from": "x", "init_from": "x"}, "fusion_from and init_from were both given"),
    ],
)
def test_values_that_cannot_be_used(options, message):
    with pytest.raises((OptionError, UnknownNameError), match=message):
        spec(**options)


def test_layers_may_be_numbers():
    assert spec(layers=-1) == spec(layers="-1") and spec(layers=[0, 2]).layers == "0,2"


def test_adam_may_be_told_that_it_has_no_weight_decay():
    assert spec(optimizer="adam", weight_decay=0).weight_decay == 0


@pytest.mark.parametrize(
    ("options", "protocol"),
    [
        ({"shots": 0}, "zero-shot"),
        ({"fraction": 0.0, "hold_out": 0.1}, "zero-shot, hold-out 0.1"),
        ({"shots": 1}, "few-shot"),
        ({"fraction": 1}, "fraction"),
    ],
)
def test_protocols(options, protocol):
    assert spec(init_from="saved", **options).protocol == protocol


def test_a_product_varies_the_last_option_fastest():
    specs = product(spec(), {"head": ["last", "p32"], "seed": [0, 1, 1]})
    assert [(one.head, one.seed) for one in specs] == [
        ("last", 0), ("last", 1), ("p32", 0), ("p32", 1),
    ]  # fmt: skip
    for seeds in (2, "0,1", [0, 1]):
        assert product(spec(), {"head": ["last", "p32"], "seeds": seeds}) == specs
    with pytest.raises(UnknownNameError, match="unknown training option 'heads'"):
        product(spec(), {"heads": ["last"]})
    with pytest.raises(OptionError, match="--batch-size names no value"):
        product(spec(), {"batch_size": []})


def test_a_plug_in_written_in_another_way_is_the_same_run() -> None:
    long = spec(head="laya:tau=1.50:scorer=64", decoder="mlp:hidden=256")
    assert long == spec(head="laya:scorer=64", decoder="mlp")


def test_runs_that_differ_in_what_records_have_no_words_for_are_told_apart():
    names = run_names([spec(), replace(spec(), control=0), replace(spec(), weight_decay=0.5)])
    assert list(names.values()) == [
        "last, seed 0, no weight decay, no control",
        "last, seed 0, no weight decay, control 0",
        "last, seed 0, weight decay 0.5, no control",
    ]
