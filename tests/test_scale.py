"""Large extractions: the simulation against closed forms, bytes against what was measured."""

import importlib
import math
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ONE = {"workers": 1, "speed": 100.0}


@pytest.fixture(autouse=True)
def on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


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
    text = (ROOT / "docs" / "scale.md").read_text("utf-8")
    assert text.split(scale.BEGIN)[1].split(scale.END)[0] == f"\n{scale.page()}\n"
