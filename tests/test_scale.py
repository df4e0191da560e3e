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


def work_of(cluster, tokens=12_000.0, unit=1000.0, token_bytes=8.0):
    return cluster.Work(tokens=tokens, unit_tokens=unit, token_bytes=token_bytes)


@pytest.mark.parametrize("workers", [1, 3, 4])
def test_without_failures_it_takes_the_tokens_over_the_rate(cluster, workers):
    made = cluster.Cluster(workers=workers, speed=100.0, start=7.0)
    found = cluster.simulate(made, work_of(cluster))
    assert found == cluster.Outcome(pytest.approx(7 + 12_000 / (100 * workers)), 0, 0)


def test_the_fullest_share_says_when_it_ends(cluster):
    """Twelve and a half units over five workers: three of them have three, one two and a half."""
    work = work_of(cluster, tokens=12_500.0)
    shares = work.shares(5)
    assert shares.sum() == 12_500 and shares.tolist() == [3000, 3000, 2500, 2000, 2000]
    found = cluster.simulate(cluster.Cluster(workers=5, speed=100.0), work)
    assert found.seconds == pytest.approx(3000 / 100)
    few = work_of(cluster, tokens=2000.0)
    assert few.shares(4).tolist() == [1000, 1000, 0, 0]


@pytest.mark.parametrize("bandwidth", [80.0, 400.0, 800.0, 1600.0, math.inf])
def test_one_worker_is_a_pipeline_of_two_stages(cluster, bandwidth):
    """n units: the slower stage n times, and the faster one once, before it or behind."""
    work = work_of(cluster)
    computed, written = 1000 / 100, 8 * 1000 / bandwidth
    found = cluster.simulate(cluster.Cluster(**ONE, bandwidth=bandwidth), work)
    expected = 12 * max(computed, written) + min(computed, written)
    assert found.seconds == pytest.approx(expected)


def test_bandwidth_is_shared_by_those_that_work(cluster):
    """Two of three have twice the work: what the third leaves is theirs."""
    work = work_of(cluster, tokens=5000.0)
    assert work.shares(3).tolist() == [2000, 2000, 1000]
    made = cluster.Cluster(workers=3, speed=100.0, bandwidth=8 * 120.0)
    together, alone = 1000 / 40, 1000 / 60  # a third of 120 tokens per second, then a half
    first_unit = 1000 / 100
    assert cluster.simulate(made, work).seconds == pytest.approx(together + alone + first_unit)


def test_a_failure_costs_what_was_done_of_a_unit_the_wait_and_the_start(cluster):
    made = cluster.Cluster(**ONE, start=5.0, wait=2.0)
    found = cluster.simulate(made, work_of(cluster), [(5 + 34.5, 0), (1e9, 0)])
    assert found == cluster.Outcome(pytest.approx(5 + 120 + 4.5 + 2 + 5), 1, pytest.approx(450))
    # while it starts there is nothing to lose, but it starts again
    found = cluster.simulate(made, work_of(cluster), [(3.0, 0)])
    assert found == cluster.Outcome(pytest.approx(3 + 2 + 5 + 120), 1, 0)


def test_a_worker_that_is_done_does_not_fail(cluster):
    work = work_of(cluster, tokens=3000.0)
    made = cluster.Cluster(workers=2, speed=100.0)
    found = cluster.simulate(made, work, [(15.0, 1)])
    assert (found.seconds, found.failures) == (20.0, 0)


def test_failures_at_random_repeat_half_a_unit_each(cluster):
    """2,000 units and about 400 failures: the mean loss is half a unit, within 4 deviations."""
    made = cluster.Cluster(**ONE, start=3.0, wait=1.0, between_failures=50.0)
    work = work_of(cluster, tokens=2_000_000.0)
    found = cluster.simulate(made, work, cluster.at_random(made, 0))
    # the clock runs while it works, starts and waits: f failures in s seconds
    assert found.failures == pytest.approx(found.seconds / 50, abs=4 * found.failures**0.5)
    working = found.failures * (1 - 4 / 50)
    deviation = 1000 * (working / 12) ** 0.5
    assert found.repeated == pytest.approx(500 * working, abs=5 * deviation + 5000)
    lost = found.seconds - 20_000 - found.repeated / 100
    assert 3.5 * found.failures < lost <= 4.0 * found.failures + 1e-6
    assert cluster.simulate(made, work, cluster.at_random(made, 0)) == found
    assert cluster.simulate(made, work, cluster.at_random(made, 1)) != found


def test_medians_and_no_failures(cluster):
    made = cluster.Cluster(workers=4, speed=100.0, between_failures=100.0)
    found = cluster.simulate_often(made, work_of(cluster), range(21))
    whole = cluster.simulate(cluster.undisturbed(made), work_of(cluster))
    assert found.seconds >= whole.seconds == 30.0
    assert next(cluster.at_random(cluster.undisturbed(made), 0), None) is None


def test_bytes_are_those_that_were_measured(scale):
    """Claims 12 and 13: train of CoNLL-2003 is 1,050 MiB in minilm-l6, 3.81 GiB in mpnet-base."""
    train = {"examples": 14_041, "rows": 203_621, "tokens": 290_000, "array": "words"}
    for blocks, dim, measured in ((6, 384, 1050 * 2**20), (12, 768, 3.81 * 2**30)):
        subject = scale.Subject(
            **train, name="", parameters=1.0, blocks=blocks, dim=dim, rates=scale.CORES, gpus=1,
            machines=1,
        )  # fmt: skip
        kept = scale.choices(subject)[0]
        assert kept.nbytes == pytest.approx(measured, rel=0.02)
        halved = scale.choices(subject)[1]
        assert 0.5 < halved.nbytes / kept.nbytes <= 0.518  # claim 14, of a smaller text


def test_the_arithmetic_of_two_cores_was_measured(scale):
    """Claim 1: 4,302 subwords per second in mpnet-base, whose blocks have 85 M parameters."""
    assert pytest.approx(scale.CORES.arithmetic, rel=0.01) == 2 * 85e6 * 4302
    assert pytest.approx(scale.CORES.disk, rel=0.02) == 2**30 / 0.66


def test_large_texts_are_as_many_bytes_as_their_rows(scale):
    for subject in scale.SUBJECTS[1:]:
        kept = scale.choices(subject)[0]
        rows = subject.rows * (subject.blocks + 1) * subject.dim * 2
        assert rows <= kept.nbytes < 1.03 * rows


def test_the_page_has_the_tables_that_the_script_prints(scale):
    text = (ROOT / "docs" / "scale.md").read_text("utf-8")
    assert text.split(scale.BEGIN)[1].split(scale.END)[0] == f"\n{scale.page()}\n"


def test_local_runs_are_foretold_from_short_ones(cluster):
    """A machine that does what the simulation says is foretold exactly."""
    shards = importlib.import_module("shards")
    measure = importlib.import_module("measure")
    little, quarter, whole = (shards.Text(Path(), n) for n in (100, 400, 1600))
    start, speed, slower = 4.0, 2600.0, 1.25
    one = {text: start + text.tokens / speed for text in (little, quarter)}
    seconds = {"a sixteenth": one[little], "a quarter": one[quarter]}
    seconds["two quarters"] = slower * one[quarter]
    timings = measure.Timings({name: [value] for name, value in seconds.items()})
    parts = shards.calibrate(timings, little, quarter, math.inf)
    found = shards.foretell(parts, whole, kill=6.0)
    assert found["one"] == pytest.approx(start + whole.tokens / speed)
    halves = slower * (start + whole.tokens / 2 / speed)
    assert found["shards"] == pytest.approx(halves, rel=0.1)  # a unit more or less
    assert found["workers"] == pytest.approx(found["shards"] + start)
    assert found["killed"] > found["shards"] + slower * start
    took = measure.Timings({name: [value / 1.2] for name, value in found.items()} | {"halves": [9]})
    claim = shards.simulation(took, found)
    assert claim.reached and claim.found.startswith("+20% (")
    assert not shards.sharing(took).reached or halves < 9
