"""Slurm for real, one node of two CPUs: jobs of the example leave what one process leaves."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from probekit.results import load_records
from tests import tiny
from tests.cluster.one_node_slurm import one_node_slurm, why_not
from tests.extraction.corpus import write_corpus
from tests.extraction.test_kill import digests

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "slurm.sh"
OPTIONS = ("--label", "2", "--device", "cpu")

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """A cluster that commands of this process, and of those that it starts, find."""
    with (
        tempfile.TemporaryDirectory(prefix="slurm") as folder,
        one_node_slurm(Path(folder)) as variables,
        pytest.MonkeyPatch.context() as patch,
    ):
        here = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        one_thread = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        for name, value in (variables | here | one_thread).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    model = tiny.build("bert", folder / "bert")
    return str(model), str(write_corpus(folder / "corpus", sentences=4000))


def ran(*command, folder):
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


def queue(*states, folder):
    wanted = "--states=" + ",".join(states)
    return ran("squeue", "--noheader", "--array", "--format=%i", wanted, folder=folder).split()


def until(condition, folder, seconds=240):
    end = time.monotonic() + seconds
    while not (found := condition()):
        logs = "".join(one.read_text() for one in sorted(folder.glob("slurm-*.out")))
        assert time.monotonic() < end, logs[-3000:]
        time.sleep(0.2)
    return found


def scores(folder):
    return {one.key: one.eval_score for one in load_records(folder / "runs")}


def test_the_example_leaves_what_one_process_leaves(inputs, tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    ran("probekit", "extract", *inputs, *OPTIONS, folder=one)
    runs = SCRIPT.read_text().partition('sweep="exec probekit sweep $* ')[2].partition('"')[0]
    ran("probekit", "sweep", *inputs, *OPTIONS, *runs.split(), folder=one)
    ran("sh", str(SCRIPT), *inputs, *OPTIONS, folder=many)
    until(lambda: list(many.glob("cache/*/*/*.partial/building/units/*")), many)
    requeued = queue("RUNNING", folder=many)[:1]
    subprocess.run(["scontrol", "requeue", *requeued])  # it may have ended by now
    subprocess.run(["scontrol", "update", f"JobId={requeued[0]}", "StartTime=now"])
    until(lambda: not queue("PENDING", "RUNNING", "COMPLETING", folder=many), many)
    assert digests(many / "cache") == digests(one / "cache")
    assert scores(many) == scores(one) and len(scores(one)) == 45
    assert not list(many.rglob("*.claim")) and not list(many.rglob("*.partial"))
