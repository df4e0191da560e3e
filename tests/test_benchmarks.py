"""The benchmarks: every program can be loaded, and ratios are what they should be."""

import importlib
import json
from argparse import Namespace
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture
def measure():
    return importlib.import_module("measure")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_every_program_can_be_loaded(path):
    module = importlib.import_module(path.stem)
    assert module.__doc__
    assert Path(module.__file__) == path, "a benchmark must not have the name of a library"


def test_every_program_is_run_by_make_bench():
    run_all = importlib.import_module("run_all")
    programs = {path.name for path in FOLDER.glob("*.py")}
    parts = {"measure.py", "machine.py", "subjects.py", "sessions.py"}
    parts |= {"training_process.py", "run_all.py", "cluster.py", "scale.py"}
    run = [*run_all.PROGRAMS, *run_all.ON_ACCELERATORS]
    assert {program for _, program, _ in run} == programs - parts


def test_sides_alternate_after_a_round_that_does_not_count(measure):
    calls = []
    sides = {name: lambda name=name: calls.append(name) or len(calls) for name in "ab"}
    timings = measure.alternate(sides, 2)
    assert "".join(calls) == "ab" + "ab" + "ba"
    assert timings.seconds == {"a": [3, 6], "b": [4, 5]}


def test_ratios_are_taken_round_by_round(measure):
    timings = measure.Timings({"slow": [10.0, 40.0, 90.0], "fast": [1.0, 2.0, 3.0]})
    ratio = timings.ratio("slow", "fast")
    assert (ratio.median, ratio.low, ratio.high) == (20.0, 10.0, 30.0)
    assert str(timings.ratio("slow", "fast", scale=0.1)) == "2 (1 to 3)"
    assert timings.median("slow") == 40.0


def test_results_hold_every_claim(measure, tmp_path, capsys):
    run_all = importlib.import_module("run_all")
    file = tmp_path / "claims.jsonl"
    options = {"aim": ">= 2 x", "details": "1 s against 3 s"}
    claims = [
        measure.Claim(number=7, title="late", found="3 x", reached=True, **options),
        measure.Claim(number=1, title="early", found="1 x", reached=False, **options),
    ]
    measure.report(claims, Namespace(json=file, device="cpu"))
    assert "measured on" not in file.read_text()
    assert "1. early: 1 x (aim: >= 2 x) NOT REACHED" in capsys.readouterr().out
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 2
    text = run_all.results(run_all.read(file))
    assert text.index("| 1 | early | >= 2 x | 1 x | **not reached** |") < text.index(
        "| 7 | late | >= 2 x | 3 x | reached |"
    )
    assert "- 7, late: 1 s against 3 s" in text
    left = text.partition("Not measured on this machine yet: ")[2]
    assert left.startswith("2, 3 (`extraction.py minilm-l6`), 5 (") and "`epochs.py`" not in left
    assert "processor: " in text
