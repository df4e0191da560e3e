"""Slurm for real, one node of two CPUs: what the engine leaves is what one process leaves."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from probekit.base import plugins
from probekit.engines import SlurmEngine
from probekit.errors import EngineError, OptionError, StateRangeError
from probekit.features import Location
from probekit.probe.heads import register_head
from probekit.results import load_records
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import product
from tests import tiny
from tests.cli.console import done, run
from tests.cluster.one_node_slurm import one_node_slurm, why_not
from tests.cluster.slow_jobs import SlowEngine, extract_train
from tests.extraction.corpus import write_corpus
from tests.extraction.test_kill import digests
from tests.planted import plant_all
from tests.plugged import Layered
from tests.train.sweeps.test_run import base, comparable

ROOT = Path(__file__).parents[2]
RUNS_AGAIN = re.compile(r"was interrupted\. It runs again|were killed .* submitted again as")
"""Slurm's signal may meet a job before it can hear it, which is then submitted again."""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """A cluster that commands of this process, and of those that it starts, find."""
    pytest.importorskip("submitit")
    with (
        tempfile.TemporaryDirectory(prefix="slurm") as folder,
        one_node_slurm(Path(folder)) as variables,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in variables.items():
            patch.setenv(name, value)
        before = os.environ.get("PYTHONPATH", "")
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{before}" if before else str(ROOT))
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    model = tiny.build("bert", folder / "bert")
    return str(model), str(write_corpus(folder / "corpus", sentences=120))


@pytest.fixture(scope="module")
def alone(inputs, tmp_path_factory):
    """What one process leaves."""
    cache = tmp_path_factory.mktemp("alone")
    extract_train(*inputs, cache)
    return digests(cache)


def slurm(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def until(condition, seconds=90):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, slurm("squeue", "--array", "--states=all", "--format=%i %T")
        time.sleep(0.1)
    return found


def marks(cache):
    return list(Path(cache).glob("*/*/*.partial/building/units/*"))


def queue(*states):
    lines = slurm(
        *("squeue", "--noheader", "--array", "--format=%i", "--states=" + ",".join(states))
    )
    return lines.split()


def test_an_array_of_which_one_is_requeued_and_one_cancelled(inputs, alone, tmp_path, caplog):
    caplog.set_level("INFO", "probekit")
    trouble = []

    def disturb():
        until(lambda: len(marks(tmp_path)) >= 2)
        one, other = sorted(queue("RUNNING"))[:2]
        slurm("scontrol", "requeue", one)
        slurm("scancel", other)
        until(lambda: one in queue("PENDING"))
        trouble.append((one, other))
        slurm("scontrol", "update", f"JobId={one}", "StartTime=now")  # it would wait two minutes

    thread = threading.Thread(target=disturb)
    thread.start()
    extract_train(*inputs, tmp_path, engine=SlowEngine(SlurmEngine()), workers=4)
    thread.join()
    assert digests(tmp_path) == alone
    ((requeued, cancelled),) = trouble
    said = caplog.text
    assert f"{cancelled} CANCELLED" in said and "submitted again as" in said
    assert f"Slurm job {requeued} was interrupted. It runs again" in said
    assert not (tmp_path / ".slurm").exists(), "all is well"
    assert not queue("PENDING", "RUNNING")


DRIVER = """
import sys
from probekit.engines import SlurmEngine
from tests.cluster.slow_jobs import SlowEngine, extract_train
model, corpus, cache, sealing = sys.argv[1:]
engine = SlowEngine(SlurmEngine(), sealing=sealing == "sealing")
extract_train(model, corpus, cache, engine=engine, workers=4)
"""


@pytest.mark.parametrize("sealing", ["sealing", "leaving"])
def test_a_driver_that_is_killed(inputs, alone, tmp_path, sealing):
    """The last shard completes the entry; where none can, the job that comes after them does."""
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, *inputs, tmp_path / "c", sealing])
    until(lambda: marks(tmp_path / "c"))
    driver.kill()
    driver.wait()
    until(lambda: not queue("PENDING", "RUNNING", "COMPLETING"))
    assert digests(tmp_path / "c") == alone


def test_a_driver_that_is_interrupted(inputs, alone, tmp_path):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *inputs, tmp_path / "c", "sealing"],
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: marks(tmp_path / "c"))
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=60)
    assert "cancelling 4 jobs of Slurm's" in said and "KeyboardInterrupt" in said
    assert not queue("PENDING", "RUNNING", "COMPLETING")
    assert marks(tmp_path / "c") and not (tmp_path / "c" / ".slurm").exists()
    extract_train(*inputs, tmp_path / "c")
    assert digests(tmp_path / "c") == alone


def test_a_job_whose_time_is_over_goes_on(inputs, alone, tmp_path, caplog):
    """Slurm's signal some time before the end puts the job back."""
    caplog.set_level("INFO", "probekit")

    def begin_at_once():
        until(lambda: (waiting := queue("PENDING")) and len(marks(tmp_path)) > 1 and waiting)
        while thread.is_alive() and not done:
            for job in queue("PENDING"):
                subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"])
            time.sleep(1)

    done = []
    thread = threading.Thread(target=begin_at_once)
    thread.start()
    # a minute, of which the signal leaves ten seconds
    engine = SlurmEngine(parameters={"time": 1, "signal_delay_s": 50})
    extract_train(*inputs, tmp_path, engine=SlowEngine(engine, seconds=1.5), workers=1)
    done.append(True)
    thread.join()
    assert digests(tmp_path) == alone
    assert RUNS_AGAIN.search(caplog.text)


def test_a_sweep_gives_the_same_records(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "_GIVEN", {kind: {} for kind in plugins.KINDS})
    location = Location(cache=plant_all(tmp_path / "cache"))
    register_head("layered", Layered)  # which jobs learn of
    heads = ["last", "layered"]
    plan = product(base(), {"head": heads, "seed": [0, 1], "shots": [None, 4]})
    where = {"location": location, "device": "cpu"}
    one = sweep(plan, out=tmp_path / "one.jsonl", **where)
    out = tmp_path / "runs" / "slurm.jsonl"
    found = sweep(plan, out=out, engine="slurm", workers=2, **where)
    assert comparable(found) == comparable(one)
    assert len(out.read_text().splitlines()) == len(plan) == len(load_records(out))
    assert not list(out.parent.glob("*.claim")) and not (out.parent / ".slurm").exists()


def test_sbatch_with_plain_shards(inputs, tmp_path):
    model, corpus = inputs
    options = "--kind tagging --label 2 --split train --device cpu --compute-dtype float32"
    command = f"{sys.executable} -m probekit extract {model} {corpus} {options} --cache {tmp_path}"
    for cache, array in (("alone", ()), ("shared", ("--array=1-2",))):
        shard = "--shard $SLURM_ARRAY_TASK_ID/2" if array else ""
        wrapped = f"--wrap={command}/{cache} {shard}"
        slurm("sbatch", *array, f"--output={tmp_path}/log-%j", wrapped)
    until(lambda: not queue("PENDING", "RUNNING", "COMPLETING"))
    assert digests(tmp_path / "shared") == digests(tmp_path / "alone")


def fail(report):
    report("about to fail")
    yield 1
    raise StateRangeError("no such row")


def die(report):
    yield from ()
    print("cannot go on", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_long(report):
    yield from ()
    time.sleep(600)


def test_an_error_is_raised_as_itself_and_ends_the_others(tmp_path, caplog):
    caplog.set_level("INFO", "probekit")
    engine = SlurmEngine().ready_for(tmp_path)
    found = []
    with pytest.raises(StateRangeError, match="no such row") as caught:
        for result in engine([fail, wait_for_long], workers=2, report=lambda news: None):
            found.append(result)
    assert found == [(0, 1)]
    assert "raise StateRangeError" in caught.value.__notes__[0]
    (folder,) = (tmp_path / ".slurm").iterdir()
    assert f"is kept in {folder}" in caplog.text
    until(lambda: not queue("PENDING", "RUNNING", "COMPLETING"))


def test_a_job_that_dies_of_itself_says_what_it_wrote(tmp_path):
    engine = SlurmEngine().ready_for(tmp_path)
    with pytest.raises(EngineError, match=r"Slurm job \d+ died \(FAILED\).*_0_log.err"):
        list(engine([die], workers=1, report=lambda news: None))


def test_jobs_that_are_all_cancelled_are_not_submitted_again(tmp_path):
    engine = SlurmEngine().ready_for(tmp_path)

    def cancel():
        running = until(lambda: queue("RUNNING"))
        slurm("scancel", running[0].partition("_")[0])

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(EngineError, match="were left were cancelled"):
        list(engine([wait_for_long] * 2, workers=2, report=lambda news: None))
    thread.join()


def yield_and_wait(folder, report):
    if not (folder / "begun").exists():
        (folder / "begun").touch()
        yield "first"
        time.sleep(600)
    yield "again"


def test_a_job_that_is_preempted_runs_again(tmp_path, caplog):
    caplog.set_level("INFO", "probekit")
    engine = SlurmEngine(parameters={"partition": "gpu"}).ready_for(tmp_path)

    def preempt():
        until((tmp_path / "begun").exists)
        slurm("srun", "--partition=urgent", "--ntasks=2", "true")
        (job,) = until(lambda: queue("PENDING"))
        slurm("scontrol", "update", f"JobId={job}", "StartTime=now")

    thread = threading.Thread(target=preempt)
    thread.start()
    found = list(engine([partial(yield_and_wait, tmp_path)], workers=1, report=print))
    thread.join()
    assert found == [(0, "first"), (0, "again")]
    assert RUNS_AGAIN.search(caplog.text)


def threads(report):
    import torch

    yield torch.get_num_threads()


@pytest.mark.parametrize(("options", "expected"), [({}, 1), ({"cpus_per_task": 2}, 2)])
def test_a_job_has_the_threads_of_its_cpus(tmp_path, options, expected):
    engine = SlurmEngine(parameters=options).ready_for(tmp_path)
    assert list(engine([threads], workers=1, report=print)) == [(0, expected)]


def test_the_command_line(inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = (*inputs, "--kind", "tagging", "--label", "2", "--engine", "slurm", "--workers", 2)
    asked = (*options, "--slurm", "partition=gpu,time=5", "--json")
    assert [row["split"] for row in done("extract", *asked).rows] == ["train", "dev"]
    said = run("sweep", *options, "--slurm", "partition=nowhere", "--head", "last", "--epochs", 1)
    assert said.code == 1 and "nvalid partition" in said.err
    assert not list(tmp_path.rglob(".slurm"))


def test_what_slurm_refuses(tmp_path):
    engine = SlurmEngine.asked("partition=nowhere").ready_for(tmp_path)
    with pytest.raises(OptionError, match=r"[Ii]nvalid partition.*nowhere") as caught:
        list(engine([threads], workers=1, report=print))
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_options_are_those_of_submitit():

    from submitit import SlurmExecutor

    from probekit.engines.slurm import slurm_options

    given = {*slurm_options.TEXTS, *slurm_options.NUMBERS, *slurm_options.OTHERS}
    theirs = SlurmExecutor._valid_parameters()
    assert given <= theirs
    assert theirs - given == {
        *("additional_parameters", "srun_args", "stderr_to_stdout", "teardown", "use_srun")
    }
