"""What becomes of an array's jobs, without a cluster: Slurm's answers and news are made up."""

import logging
from collections import deque

import pytest

from probekit.engines.slurm import array_run
from probekit.engines.slurm.array_run import ArrayRun
from probekit.engines.slurm.job_news import Begun, Ended, Inbox, Interrupted, Outbox, Result
from probekit.engines.slurm.slurm_queue import Standing
from probekit.errors import EngineError, StateRangeError


class Submitting:
    """Gives numbers to arrays, and notes what was submitted."""

    def __init__(self, folder):
        self.folder = folder
        self.arrays = []

    def submit(self, tasks, *, at_once=1, after=()):
        self.arrays.append((list(tasks), at_once, tuple(after)))
        number = len(self.arrays)
        return [f"{number}_{place}" for place, _ in enumerate(tasks)]


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A run of three jobs; what Slurm says of them, in turn, the last of it for ever."""
    states, cancelled, clock = deque(), [], [0.0]

    def asked(arrays):
        said = states.popleft() if len(states) > 1 else states[0]
        said = said() if callable(said) else said
        return said and {job: Standing(state, "Priority") for job, state in said.items()}

    def slept(seconds):
        clock[0] += max(seconds, 0.01)

    monkeypatch.setattr(array_run, "job_standings", asked)
    monkeypatch.setattr(array_run, "cancel_jobs", cancelled.extend)
    monkeypatch.setattr(array_run.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(array_run.time, "sleep", slept)
    run = ArrayRun(
        submission=Submitting(tmp_path),
        tasks=["a", "b", "c"],
        workers=2,
        afterwards=None,
        most=2,
        inbox=Inbox(tmp_path),
    )
    run.start()
    return run, states, cancelled


def all_of(run, reported=None):
    return list(run.follow((reported if reported is not None else []).append))


def tell(folder, place, *items):
    outbox = Outbox(folder, place)
    for item in items:
        outbox.put(item)


RUNNING = {"1_0": "RUNNING", "1_1": "RUNNING", "1_2": "PENDING"}


def test_results_reports_and_messages_come_from_the_jobs(slurm, tmp_path, caplog):
    run, states, _ = slurm
    states.append(RUNNING)
    record = logging.LogRecord("probekit.x", logging.WARNING, "", 0, "seen", None, None)
    for place in range(3):
        begun = Begun(f"1_{place}", "node", 0)
        tell(tmp_path, place, begun, 3, "words", record, Result(place), 4, Ended())
    reported = []
    assert sorted(all_of(run, reported)) == [(0, 0), (1, 1), (2, 2)]
    assert sum(one for one in reported if one != "words") == 21 and "words" in reported
    assert caplog.messages == ["seen"] * 3


def test_an_error_comes_after_what_else_is_done(slurm, tmp_path):
    run, states, _ = slurm
    states.append(RUNNING)
    tell(tmp_path, 0, Ended(StateRangeError("too large")))
    tell(tmp_path, 1, Result("b"), Ended())
    found = []
    with pytest.raises(StateRangeError, match="too large"):
        for result in run.follow(print):
            found.append(result)
    assert found == [(1, "b")]


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "TIMEOUT", "CANCELLED", "COMPLETED"])
def test_what_was_killed_is_submitted_again(slurm, tmp_path, caplog, state):
    run, states, _ = slurm

    def then():
        if len(run.submission.arrays) > 1:
            for place in range(3):
                tell(tmp_path, place, Result(place), Ended())
        return {**RUNNING, "1_1": state, "2_0": "RUNNING"}

    states.append(then)
    assert len(all_of(run)) == 3
    assert [tasks for tasks, *_ in run.submission.arrays] == [["a", "b", "c"], ["b"]]
    assert f"1_1 {state}" in caplog.text and "submitted again as 2, time 1 of 2" in caplog.text


def test_it_is_not_submitted_for_ever(slurm):
    run, states, _ = slurm
    states.append(lambda: {**RUNNING, "1_1": "PREEMPTED", "2_0": "PREEMPTED", "3_0": "PREEMPTED"})
    with pytest.raises(EngineError, match=r"killed again and again \(3_0 PREEMPTED\)"):
        all_of(run)
    assert len(run.submission.arrays) == 3


def test_a_job_that_died_of_itself_is_not_submitted_again(slurm, tmp_path):
    run, states, _ = slurm
    states.append({**RUNNING, "1_1": "OUT_OF_MEMORY"})
    (tmp_path / "1_1_0_log.err").write_text("Traceback\nkilled by the kernel\n\n")
    with pytest.raises(EngineError, match=r"1_1 died \(OUT_OF_MEMORY\).*kernel.*mem=32GB"):
        all_of(run)
    assert len(run.submission.arrays) == 1


@pytest.mark.parametrize("heard", [True, False])
def test_one_that_failed_as_it_was_asked_to_stop_is(slurm, tmp_path, heard):
    run, states, _ = slurm
    if heard:
        tell(tmp_path, 1, Begun("1_1", "node", 0), Interrupted())
    else:
        log = "slurmstepd: starting\nsrun: error: node: task 0: User defined signal 2\n"
        (tmp_path / "1_1_0_log.err").write_text(log)

    def then():
        if len(run.submission.arrays) > 1:
            for place in range(3):
                tell(tmp_path, place, Ended())
        return {**RUNNING, "1_1": "FAILED"}

    states.append(then)
    all_of(run)
    assert len(run.submission.arrays) == 2


def test_jobs_that_are_all_cancelled_stay_so(slurm):
    run, states, _ = slurm
    states.append({"1_0": "CANCELLED", "1_1": "COMPLETING", "1_2": "CANCELLED"})
    states.append({"1_0": "CANCELLED", "1_1": "COMPLETING", "1_2": "CANCELLED"})
    states.append(dict.fromkeys(RUNNING, "CANCELLED"))
    with pytest.raises(EngineError, match=r"were cancelled \(1_0 1_1 1_2\)"):
        all_of(run)
    assert len(run.submission.arrays) == 1


def test_what_comes_afterwards_waits_for_all_arrays(slurm, tmp_path):
    run, states, cancelled = slurm
    run = ArrayRun(run.submission, ["a", "b"], 2, "merge", 2, Inbox(tmp_path))
    run.start()

    def then():
        if len(run.submission.arrays) > 3:
            for place in range(2):
                tell(tmp_path, place, Ended())
        return {"2_0": "RUNNING", "2_1": "NODE_FAIL", "4_0": "RUNNING"}

    states.append(then)
    all_of(run)
    after = [(tasks, after) for tasks, _, after in run.submission.arrays[1:]]
    assert after == [(["a", "b"], ()), (["merge"], ("2",)), (["b"], ()), (["merge"], ("2", "4"))]
    assert cancelled == ["3_0"], "the one that waited for the first array alone"


def test_slurm_that_does_not_answer_is_waited_for(slurm, tmp_path):
    run, states, _ = slurm
    states.extend([None, None, {}])
    states.append(lambda: [tell(tmp_path, place, Ended()) for place in range(3)] and {})
    all_of(run)
    assert len(run.submission.arrays) == 1, "no word of a job is not at once its end"


def test_news_that_are_torn_or_not_whole_yet_wait(tmp_path):
    inbox = Inbox(tmp_path)
    outbox = Outbox(tmp_path, 7)
    outbox.put(Result("first"))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        assert list(inbox.take()) == []
    file.write_bytes(whole)
    assert list(inbox.take()) == [(7, Result("first"))]
    outbox.put("words")
    outbox.put(Ended())
    assert list(inbox.take()) == [(7, "words"), (7, Ended())]
    assert list(inbox.take()) == []
