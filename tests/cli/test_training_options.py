"""The options that train, sweep and depth share, and an entry's path in place of MODEL TASK."""

import inspect
import json
from dataclasses import fields

import pytest

from probekit.cli import train as commands
from probekit.cli.training_options import TrainingOptions
from tests.cli.console import done, refused
from tests.planted import plant, plant_all


@pytest.mark.parametrize("command", [commands.train, commands.sweep, commands.depth])
def test_every_shared_option_is_an_option_of_the_command(command):
    found = inspect.signature(command).parameters
    assert "shared" not in found
    for field in fields(TrainingOptions):
        assert found[field.name].default == field.default
        assert found[field.name].annotation == field.type == command.__annotations__[field.name]


def test_shared_options_reach_the_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant_all(tmp_path / "cache")
    words = ("--head", "last,mean", "--lr", "1e-3,auto", "--seeds", "2", "--epochs", "1", "--json")
    outcome = done("sweep", "planted", "conll", *words, "--weight-decay", "0.5")
    records = [json.loads(line) for line in outcome.out.splitlines()]
    settings = [(record["head"], record["lr"], record["seed"]) for record in records]
    assert settings == [(h, lr, s) for h in ("last", "mean") for lr in (1e-3, 2e-3) for s in (0, 1)]
    assert {record["optimizer"] for record in records} == {"AdamW, weight decay 0.5, linear decay"}
    assert len((tmp_path / "runs/planted/conll.jsonl").read_text().splitlines()) == 8


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
