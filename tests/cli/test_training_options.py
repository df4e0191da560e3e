"""The options that train, sweep and depth share, and an entry's path in place of MODEL TASK."""

import inspect
import json
import re
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from probekit.base.selection import PROTOCOL_DEFAULTS
from probekit.cli import train as commands
from probekit.cli.training_options import OF_RUNS, TrainingOptions
from probekit.train.sweeps.run_options import GROUPS
from probekit.train.sweeps.specs import TrainSpec
from tests.cli.console import done, refused, stated
from tests.planted import plant, plant_all


@pytest.mark.parametrize("command", [commands.train, commands.sweep, commands.depth])
def test_every_shared_option_is_an_option_of_the_command(command):
    found = inspect.signature(command).parameters
    assert "shared" not in found
    for field in fields(TrainingOptions):
        assert found[field.name].default == field.default
        annotation = found[field.name].annotation
        assert annotation == command.__annotations__[field.name]
        if "help" in field.metadata:
            type_, option = get_args(annotation)
            assert type_ == field.type
            assert option.help == field.metadata["help"]
            assert option.default == f"--{field.name}"
        else:
            assert annotation == field.type


@pytest.mark.parametrize("command", [commands.train, commands.sweep, commands.depth])
def test_every_option_of_runs_with_help_is_an_option_of_the_command(command):
    found = inspect.signature(command).parameters
    assert "asked" not in found
    arguments, named_apart = {"model", "task"}, {"head", "depth", "seed", "rates"}
    apart = arguments | named_apart | {"as_published", "rate_from", "trial", "left_out"}
    apart |= {"fusion_from", "freeze_fusion", "init_from"}  # typed as --start
    every = {field.name: field for group in GROUPS for field in fields(group)}
    assert OF_RUNS.fields.keys() == every.keys() - apart - PROTOCOL_DEFAULTS.keys()
    for name, field in OF_RUNS.fields.items():
        several = "each" in field.metadata
        assert found[name].default == (None if several else field.default)
        type_, option = get_args(found[name].annotation)
        assert (str in get_args(type_)) if several else type_ == get_type_hints(TrainSpec)[name]
        assert option.help == field.metadata["help"]
        assert option.default == f"--{name.replace('_', '-')}"  # how typer keeps what was declared


def test_the_help_of_a_sweep_names_the_options_that_may_have_several_values():
    (line,) = (line for line in commands.sweep.__doc__.splitlines() if "Lists may" in line)
    several = {name for name, field in OF_RUNS.fields.items() if "each" in field.metadata}
    named = set(re.findall(r"--([a-z0-9-]+)", line))
    assert named == {name.replace("_", "-") for name in several | {"head", "depth"}}
    assert several >= {
        "decoder", "label", "normalize", "pooling", "shots", "fraction", "epochs", "lr", "l2",
    }  # fmt: skip


def test_shared_options_reach_the_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant_all(tmp_path / "cache")
    words = ("--head", "last,mean", "--lr", "1e-3,auto", "--seeds", "2", "--epochs", "1", "--json")
    outcome = done("sweep", "planted", "conll", *words, *stated(weight_decay=0.5))
    records = [json.loads(line) for line in outcome.out.splitlines()]
    settings = [(record["head"], record["lr"], record["seed"]) for record in records]
    assert settings == [(h, lr, s) for h in ("last", "mean") for lr in (1e-3, 1e-2) for s in (0, 1)]
    assert {record["optimizer"] for record in records} == {"AdamW, weight decay 0.5, linear decay"}
    assert len((tmp_path / "runs/planted/conll.jsonl").read_text().splitlines()) == 8


@pytest.mark.parametrize("command", ["train", "sweep", "depth"])
def test_seeds_may_be_listed(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    plant_all(tmp_path / "cache")
    words = ("--head", "last", "--shots", "4", "--seeds", "5,2:4", "--l2", "1", "--json")
    every = ("--every", "3", "--layers", "3") if command == "depth" else ()
    rows = done(command, "planted", "conll", *words, *every).rows
    assert [row["seed"] for row in rows] == [5, 2, 3]


def test_how_a_head_is_trained_may_vary(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant_all(tmp_path / "cache")
    words = stated(
        batch_size=[8, 16], optimizer=["adam", "adamw"], schedule=["linear", "constant"], evals=1
    )
    rows = done("sweep", "planted", "conll", "--head", "last", "--epochs", "1", "--json", *words)
    found = {(row["batch_size"], row["optimizer"]) for row in rows.rows}
    decay = "AdamW, weight decay 0.01"
    kinds = [
        f"{name}, {how}" for name in ("Adam", decay) for how in ("linear decay", "constant rate")
    ]
    assert found == {(size, kind) for size in (8, 16) for kind in kinds}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"weight_decay": [0, 0.5]},
            [f"AdamW, weight decay {decay}, linear decay" for decay in ("0", "0.5")],
        ),
        (
            {"warmup": [0, 0.5]},
            [f"AdamW, weight decay 0.01, linear decay{rise}" for rise in ("", ", warm-up 0.5")],
        ),
    ],
)
def test_a_detail_of_a_protocol_may_have_several_values(tmp_path, monkeypatch, options, expected):
    monkeypatch.chdir(tmp_path)
    plant_all(tmp_path / "cache")
    words = ("--epochs", "1", "--head", "last", "--json", *stated(**options))
    rows = done("sweep", "planted", "conll", *words).rows
    assert [row["optimizer"] for row in rows] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2e-3,mixing=0.1", [(2e-3, {"mixing": 0.1})]),
        ("mixing=0.1,transitions=0.05", [(1e-2, {"mixing": 0.1, "transitions": 0.05})]),
        ("1e-3,auto", [(1e-3, {"mixing": 0.2}), (1e-2, {"mixing": 0.2})]),
        ("mixing=0.1,mixing=0.3", [(1e-2, {"mixing": 0.1}), (1e-2, {"mixing": 0.3})]),
    ],
)
def test_rates_of_groups_are_typed_beside_the_rate(tmp_path, monkeypatch, text, expected):
    monkeypatch.chdir(tmp_path)
    plant_all(tmp_path / "cache")
    decoder = "crf" if "transitions" in text else "linear"
    words = ("--head", "p32", "--epochs", "1", "--decoder", decoder, "--json")
    rows = done("sweep", "planted", "conll", *words, "--lr", text).rows
    assert [(row["lr"], row["rates"]) for row in rows] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mixing=", "--lr mixing=: give a number, such as mixing=0.1."),
        ("mixing=fast", "--lr mixing: 'fast' is not a number."),
        ("mixing=auto", "--lr mixing=auto: give a number, such as mixing=0.1."),
        ("fast", "--lr: 'fast' is not a number."),
    ],
)
def test_rates_that_cannot_be_read(tmp_path, text, message):
    entry = plant(tmp_path / "cache")
    assert refused("train", entry.path, "--head", "p32", "--lr", text) == message


def test_a_search_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant_all(tmp_path / "cache")
    words = ("--head", "p32,last", "--lr", "search", "--epochs", "1", *stated(evals=1))
    printed = done("sweep", "planted", "conll", *words).out
    assert printed.count(" searched ") == 2
    shown = done("table", "runs/planted/conll.jsonl").out
    assert shown == printed
    trials = done("table", "runs/planted/conll.jsonl", "--where", "trial=yes").out
    assert len(trials.splitlines()) >= 10


def test_an_entry_s_path_needs_no_model(tmp_path, monkeypatch):
    """Nor the name that the user typed at extraction, which may be a path of another machine."""
    monkeypatch.chdir(tmp_path)
    plant_all(tmp_path / "elsewhere")
    (entry,) = (tmp_path / "elsewhere").glob("planted/conll/train-*[0-9a-f]")
    outcome = done("train", str(entry), "--head", "last", "--epochs", "1", "--json")
    assert json.loads(outcome.out)["model"] == "planted"


def test_no_seed_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant(tmp_path / "cache")
    assert refused("train", "planted", "conll", "--seeds", "0") == "--seeds must be at least 1."


def test_against_without_rows_is_refused(tmp_path):
    entry = plant(tmp_path / "cache")
    assert "--rows N" in refused("cache", "verify", entry.path, "--against", entry.path)
