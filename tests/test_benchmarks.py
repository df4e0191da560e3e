"""The benchmarks: programs load, ratios are right, the simulation meets closed forms."""

import importlib
import json
import math
from argparse import Namespace
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"
ONE = {"workers": 1, "speed": 100.0}


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
    parts |= {"training_process.py", "run_all.py", "cluster.py", "scale.py", "against.py"}
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


@pytest.fixture
def cluster():
    return importlib.import_module("cluster")


@pytest.fixture
def scale():
    return importlib.import_module("scale")


def work_of(cluster, tokens=12_000.0):
    return cluster.Work(tokens=tokens, unit_tokens=1000.0, token_bytes=8.0)


@pytest.mark.parametrize("bandwidth", [80.0, 800.0, math.inf])
def test_one_worker_is_a_pipeline_of_two_stages(cluster, bandwidth):
    """n units: the slower stage n times, and the faster one once, before it or behind."""
    computed, written = 1000 / 100, 8 * 1000 / bandwidth
    found = cluster.simulate(cluster.Cluster(**ONE, bandwidth=bandwidth), work_of(cluster))
    expected = 12 * max(computed, written) + min(computed, written)
    assert found == cluster.Outcome(pytest.approx(expected), 0, 0)


def test_a_failure_costs_what_was_done_of_a_unit_the_wait_and_the_start(cluster):
    made = cluster.Cluster(**ONE, start=5.0, wait=2.0)
    found = cluster.simulate(made, work_of(cluster), [(5 + 34.5, 0), (1e9, 0)])
    assert found == cluster.Outcome(pytest.approx(5 + 120 + 4.5 + 2 + 5), 1, pytest.approx(450))
    made = cluster.Cluster(**ONE, start=3.0, wait=1.0, between_failures=50.0)
    work = work_of(cluster, tokens=200_000.0)
    found = cluster.simulate(made, work, cluster.at_random(made, 0))
    assert found.failures == pytest.approx(found.seconds / 50, abs=4 * found.failures**0.5)
    assert cluster.simulate(made, work, cluster.at_random(made, 0)) == found
    assert next(cluster.at_random(cluster.undisturbed(made), 0), None) is None


def test_bytes_are_those_that_were_measured(scale):
    """Claims 12 and 13: train of CoNLL-2003 is 1,050 MiB in minilm-l6, 3.81 GiB in mpnet-base."""
    train = {"examples": 14_041, "rows": 203_621, "tokens": 290_000, "array": "words"}
    for blocks, dim, measured in ((6, 384, 1050 * 2**20), (12, 768, 3.81 * 2**30)):
        subject = scale.Subject(
            **train, name="", parameters=1.0, blocks=blocks, dim=dim, rates=scale.CORES, gpus=1,
            machines=1,
        )  # fmt: skip
        kept, halved, *_ = scale.choices(subject)
        assert kept.nbytes == pytest.approx(measured, rel=0.02)
        assert 0.5 < halved.nbytes / kept.nbytes <= 0.518  # claim 14, of a smaller text


def test_the_page_has_the_tables_that_the_script_prints(scale):
    text = (ROOT / "benchmarks" / "SCALE.md").read_text("utf-8")
    assert text.split(scale.BEGIN)[1].split(scale.END)[0] == f"\n{scale.page()}\n"
