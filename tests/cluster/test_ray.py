"""Jobs on a Ray cluster of two nodes, which loses a worker and a node: nothing else differs."""

import hashlib
import logging
import os
import signal
import threading
import time
from collections import Counter
from functools import partial
from importlib.util import find_spec

import psutil
import pytest

from probekit.base.plugins import _GIVEN
from probekit.engines import RayEngine, ray_jobs, run_local
from probekit.errors import EngineError, EntryLockedError
from probekit.extraction import ExtractOptions, extract
from probekit.extraction import plan as plan_module
from probekit.features import Location
from probekit.probe.heads import register_head
from probekit.results import load_records
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec, product
from tests import tiny
from tests.cluster.conftest import another_node, eventually
from tests.cluster.watched import UNIT_BYTES, few_rows, read_notes, watched
from tests.engines.test_local import finish_one_and_wait
from tests.extraction.corpus import write_corpus
from tests.extraction.test_kill import without_time
from tests.planted import MODEL, TASK, plant_all
from tests.plugged import Layered

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    # Ray leaves sockets and files to the collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

if find_spec("ray") is None:
    pytest.skip("the extra probekit[ray] is not installed", allow_module_level=True)

RAY = RayEngine(patience=120.0)


def nothing(news):
    pass


def digests(cache):
    """Digest of every file of all entries, but for the time at which manifests were made."""
    files = sorted(path for path in cache.glob("*/*/*-*/**/*") if path.is_file())
    return {
        str(path.relative_to(cache)): hashlib.sha256(without_time(path)).hexdigest()
        for path in files
    }


class Trouble(threading.Thread):
    """Kills the worker of the first node in the middle of its job, then removes the second node.

    Attributes:
        notes: what workers note.
        go_on: until this is there, each waits after its second note.
        before: how much was noted when the node was removed.
    """

    def __init__(self, cluster, second, folder):
        super().__init__()
        self.cluster, self.second = cluster, second
        self.notes, self.go_on, self.before = folder / "ray.txt", folder / "go-on", 0

    def run(self):
        there = self.second.node_id
        assert eventually(lambda: [two for _, two in self.noted().values()] == [2, 2])
        (killed,) = [pid for pid, (where, _) in self.noted().items() if where != there]
        os.kill(int(killed), signal.SIGKILL)
        assert eventually(lambda: len(self.noted()) == 3), "another worker has begun"
        self.cluster.remove_node(self.second, allow_graceful=False)
        # a worker outlives its node by a moment, which is enough to finish a small job
        left = [int(pid) for pid, (where, _) in self.noted().items() if where == there]
        assert eventually(lambda: not any(map(_runs, left)))
        self.before = len(read_notes(self.notes))
        self.go_on.touch()

    def noted(self):
        """The node and the number of the notes of each process."""
        lines = read_notes(self.notes)
        counts = Counter(pid for pid, *_ in lines)
        return {pid: (where, counts[pid]) for pid, where, *_ in lines}


def _runs(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.fixture
def trouble(cluster, second, tmp_path):
    made = Trouble(cluster, second, tmp_path)
    made.start()
    yield made
    made.join()


def test_extraction_that_loses_a_worker_and_a_node(trouble, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(plan_module, "UNIT_BYTES", UNIT_BYTES)
    monkeypatch.setattr(plan_module, "chunk_rows_for", few_rows)
    bert = str(tiny.build("bert", tmp_path / "bert"))
    corpus = str(write_corpus(tmp_path / "corpus", sentences=120))
    counts = {"local": 0, "ray": 0}

    def run(name, engine, go_on=None):
        def counted(jobs, *, workers, report):
            def heard(news):
                counts[name] += news if isinstance(news, int) else 0

            start = watched(engine, tmp_path / f"{name}.txt", go_on)
            yield from start(jobs, workers=workers, report=heard)

        extract(
            bert, corpus, kind="tagging", label="2", cache=tmp_path / name, device="cpu",
            options=ExtractOptions(compute_dtype="float32"), workers=2, engine=counted,
        )  # fmt: skip

    run("ray", RAY, trouble.go_on)
    trouble.join()
    run("local", run_local)
    assert digests(tmp_path / "ray") == digests(tmp_path / "local") != {}
    written = [tuple(line[2:]) for line in read_notes(tmp_path / "ray.txt")]
    assert len(written) == len(set(written)), "a unit that is marked is not computed again"
    alone = {tuple(line[2:]) for line in read_notes(tmp_path / "local.txt")}
    assert set(written) <= alone and len(alone) - len(written) <= 2
    assert trouble.before < len(written), "there was work left when the node went"
    assert counts["ray"] == counts["local"]
    assert caplog.text.count("another takes over its job") == 2


def test_a_sweep_that_loses_a_worker_and_a_node(trouble, tmp_path, caplog):
    location = Location(cache=plant_all(tmp_path / "cache"))
    base = TrainSpec(model=MODEL, task=TASK, label="ner", head="last", epochs=2)
    plan = product(base, {"head": ("last", "mean", "p32"), "seed": range(4), "shots": (None, 4)})

    def run(name, engine, go_on=None):
        return sweep(
            plan, out=tmp_path / f"{name}.jsonl", location=location, workers=2, device="cpu",
            engine=watched(engine, tmp_path / f"{name}.txt", go_on),
        )  # fmt: skip

    found = run("ray", RAY, trouble.go_on)
    trouble.join()
    expected = run("local", run_local)
    assert comparable(found) == comparable(expected)
    lines = (tmp_path / "ray.jsonl").read_text().splitlines()
    assert len(lines) == len(plan) == len(load_records(tmp_path / "ray.jsonl"))
    assert not list(tmp_path.glob("*.claim"))
    fitted = [line[2] for line in read_notes(tmp_path / "ray.txt")]
    assert len(fitted) - len(set(fitted)) <= 2, "those that were killed before they were recorded"
    assert trouble.before < len(fitted)
    assert caplog.text.count("another takes over its job") == 2


def comparable(records):
    return {record.key: {**record.to_json(), "train_seconds": 0} for record in records}


def double(value, report):
    import torch

    from probekit.probe.heads import HEADS

    logging.getLogger("probekit.engines").info("seen from %d", value)
    report(value)
    yield 2 * value, torch.get_num_threads(), "layered" in HEADS


def test_results_news_messages_and_plug_ins(cluster, caplog, monkeypatch):
    monkeypatch.setitem(_GIVEN, "head", {})
    register_head("layered", Layered)
    caplog.set_level(logging.INFO, "probekit")
    steps = []
    jobs = [partial(double, value) for value in (3, 4, 5)]
    found = dict(RAY(jobs, workers=2, report=steps.append))
    assert found == {0: (6, 1, True), 1: (8, 1, True), 2: (10, 1, True)}
    assert sorted(steps) == [3, 4, 5]
    assert sorted(caplog.messages) == ["seen from 3", "seen from 4", "seen from 5"]


def fail(report):
    """Fail without a result."""
    yield from ()
    raise ValueError("no such row")


def test_an_error_in_a_job_is_raised_here(cluster):
    with pytest.raises(ValueError, match="no such row"):
        list(RAY([fail], workers=1, report=nothing))


def die(report):
    report(2)
    yield from ()
    time.sleep(0.5)  # what was reported is on its way
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_job_that_kills_every_worker_is_given_up(cluster, monkeypatch):
    monkeypatch.setattr(ray_jobs, "MOST_LOST", 2)
    steps = []
    with pytest.raises(EngineError, match=r"2 workers in a row were lost"):
        list(RAY([die], workers=1, report=steps.append))
    assert steps == [2, -2, 2]


def find_what_it_locked(folder, report):
    """A job that is lost, and run again before the file server knows."""
    run = len(list(folder.iterdir()))
    (folder / str(run)).touch()
    yield run
    time.sleep(0.5)  # what was yielded is on its way
    if run == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if run == 1:
        raise EntryLockedError("held by a process of a node that is gone")


def test_a_lost_run_may_hold_its_locks_for_a_while(cluster, tmp_path):
    found = list(RAY([partial(find_what_it_locked, tmp_path)], workers=1, report=nothing))
    assert found == [(0, 0), (0, 1), (0, 2)]


def test_a_folder_that_a_node_lacks_is_said(cluster, monkeypatch):
    monkeypatch.setattr("os.getcwd", lambda: "/no/such/folder")
    with pytest.raises(EngineError, match=r"has no folder /no/such/folder: start from"):
        list(RAY([fail], workers=1, report=nothing))


def see(report):
    yield os.environ.get("CUDA_VISIBLE_DEVICES")
    time.sleep(1)


def test_gpus_are_shared_and_those_of_others_hidden(cluster):
    with another_node(cluster, num_cpus=2, num_gpus=2):
        halves = dict(RayEngine(gpus_per_worker=0.5)([see] * 2, workers=2, report=nothing))
        assert len(halves) == 2 and set(halves.values()) <= {"0", "1"}
        assert dict(RayEngine()([see], workers=1, report=nothing))[0] in ("0", "1")
        assert dict(RayEngine(gpus_per_worker=0)([see], workers=1, report=nothing)) == {0: ""}


def test_no_room_is_said(cluster):
    engine = RayEngine(gpus_per_worker=4, patience=3.0)
    with pytest.raises(EngineError, match=r"no node of the Ray cluster has had 1 CPUs and 4 GPUs"):
        list(engine([fail], workers=1, report=nothing))


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def write_pid_and_wait(folder, report):
    yield os.getpid()
    (folder / str(os.getpid())).touch()
    time.sleep(60)


def test_results_come_before_the_job_ends_and_a_caller_that_stops_ends_it(cluster, tmp_path):
    run = RAY([partial(write_pid_and_wait, tmp_path)], workers=1, report=nothing)
    _, pid = next(run)
    run.close()
    assert eventually(lambda: gone(pid), seconds=20)


def test_what_is_finished_is_handed_over_before_an_interrupt(cluster, tmp_path):
    def interrupt():
        assert eventually(lambda: any(tmp_path.iterdir()))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    found = []
    with pytest.raises(KeyboardInterrupt):
        for _, result in RAY([partial(finish_one_and_wait, tmp_path)] * 2, workers=2, report=print):
            found.append(result)
    thread.join()
    assert found == ["finished"]
