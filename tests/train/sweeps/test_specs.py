from dataclasses import replace

import pytest

from probekit.errors import OptionError, UnknownNameError
from probekit.train.sweeps.run_words import run_names
from probekit.train.sweeps.specs import ResolvedOptions, TrainSpec, product

BASE = TrainSpec(model="m", task="t", head="last")


def resolved(**options):
    spec = TrainSpec(**{"model": "m", "task": "t", "head": "last"} | options)
    return ResolvedOptions(
        spec=spec, task="t", layers=(1,), metric="f1", entries={"train": "k"},
        labels_fingerprint="l", numerics=1,
    )  # fmt: skip


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
        ({"lr": "search", "shots": 0, "init_from": "x"}, "--lr search: nothing is trained"),
        ({"lr": "search", "fit": "lbfgs"}, "--fit lbfgs solves for the optimum and takes no --lr"),
        ({"weight_decay": "search"}, "weight_decay must be 0 or more; found 'search'"),
        ({"rates": (("mixing", 0.1),), "fit": "ridge"}, "--fit ridge solves .* takes no --lr"),
        ({"rate_from": "guessed"}, "unknown origin of a rate 'guessed'"),
        ({"lr": float("nan")}, "--lr must be"),
        ({"hold_out": 1}, "--hold-out must be a number between 0 and 1"),
        ({"weight_decay": -1}, "weight_decay must be 0 or more"),
        ({"weight_decay": 0.1, "optimizer": "adam"}, "weight_decay: the optimizer adam has none"),
        ({"warmup": 1}, "warmup must be a number from 0 to below 1; found 1"),
        (
            {"warmup": 0.1, "fit": "lbfgs"},
            "--fit lbfgs solves .* takes no warmup",
        ),
        ({"depth": -1}, "--depth must be"),
        ({"normalize": "l2"}, "normaliz"),
    ],
)
def test_values_that_cannot_be_used(options, message):
    with pytest.raises((OptionError, UnknownNameError), match=message):
        TrainSpec(**{"model": "m", "task": "t", "head": "last"} | options)


def test_adam_may_be_told_that_it_has_no_weight_decay():
    spec = TrainSpec(model="m", task="t", head="last", optimizer="adam", weight_decay=0)
    assert spec.weight_decay == 0


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="Did you mean 'concat'"):
        TrainSpec(model="m", task="t", head="concatt")
    with pytest.raises(UnknownNameError, match="unknown decoder"):
        TrainSpec(model="m", task="t", head="last", decoder="lin")


def test_protocols_without_training_are_zero_shot():
    base = {"model": "m", "task": "t", "head": "last", "init_from": "saved"}
    assert TrainSpec(**base, shots=0).protocol == "zero-shot"
    assert TrainSpec(**base, fraction=0.0, hold_out=0.1).protocol == "zero-shot, hold-out 0.1"
    assert TrainSpec(**base, shots=1).protocol == "few-shot"


def test_a_fraction_of_one_is_allowed():
    assert TrainSpec(model="m", task="t", head="last", fraction=1).protocol == "fraction"


def test_a_product_varies_the_last_option_fastest():
    specs = product(BASE, {"head": ["last", "p32"], "seed": [0, 1, 1]})
    assert [(spec.head, spec.seed) for spec in specs] == [
        ("last", 0), ("last", 1), ("p32", 0), ("p32", 1),
    ]  # fmt: skip
    for seeds in (2, "0,1", [0, 1]):
        assert product(BASE, {"head": ["last", "p32"], "seeds": seeds}) == specs
    with pytest.raises(OptionError, match="unknown training option 'heads'"):
        product(BASE, {"heads": ["last"]})
    with pytest.raises(OptionError, match="--batch-size names no value"):
        product(BASE, {"batch_size": []})


def test_the_key_hashes_options_and_data_but_not_the_model_s_name():
    keys = {resolved(seed=seed, lr=lr).key for seed in (0, 1) for lr in (1e-3, 2e-3)}
    assert len(keys) == 4
    assert resolved(model="org/m").key == resolved(model="./m").key


def test_a_plug_in_written_in_another_way_is_the_same_run() -> None:
    options = {"model": "m", "task": "t"}
    long = TrainSpec(head="laya:tau=1.50:scorer=64", decoder="mlp:hidden=256", **options)
    assert long == TrainSpec(head="laya:scorer=64", decoder="mlp", **options)


def test_runs_that_differ_in_what_records_have_no_words_for_are_told_apart():
    spec = TrainSpec(model="m", task="t", head="last")
    names = run_names([spec, replace(spec, control=0), replace(spec, weight_decay=0.5)])
    assert list(names.values()) == [
        "last, seed 0, no weight decay, no control",
        "last, seed 0, no weight decay, control 0",
        "last, seed 0, weight decay 0.5, no control",
    ]
