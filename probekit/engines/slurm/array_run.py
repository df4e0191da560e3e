"""One run of an array: its jobs are submitted, followed, submitted again where they were killed."""

import logging
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probekit.base.notices import info_once
from probekit.engines.contract import Report
from probekit.engines.job_run import pass_on
from probekit.engines.slurm.job_news import Begun, Ended, Inbox, Interrupted, Result
from probekit.engines.slurm.slurm_queue import GONE, LIVE, cancel_jobs, job_standings
from probekit.engines.slurm.slurm_task import SlurmTask
from probekit.engines.slurm.submission import Submission
from probekit.errors import EngineError

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
"""Between two looks at the news."""

_ASK_SECONDS = 5.0
"""Between two questions to Slurm."""

_LATE_SECONDS = 60.0
"""How much later than its end a job's last news may come through a shared file system."""

_GRACE_SECONDS = 120.0
"""How long jobs may take to hand over what they have finished, once they are asked to stop."""

_OWN_FAULT = frozenset({"FAILED", "OUT_OF_MEMORY", "DEADLINE"})
"""States of jobs that would end in the same way again."""

_STRUCK = "User defined signal 2"
"""What ``srun`` says of a job that Slurm's signal has met before it could hear it."""

_MAY_BE_DONE = frozenset({"COMPLETED", GONE.state})
"""States of jobs that have come to their end, as far as Slurm knows."""

_KEPT = "What they had finished is kept: run the command again to go on."

_SAID = "Slurm job %s was interrupted. It runs again, on %s, and goes on from what it has finished."


@dataclass
class ArrayRun:
    """The jobs of one run and what has become of them.

    Attributes:
        submission: how they are submitted.
        tasks: what each job runs, by position.
        workers: how many run at once.
        afterwards: what runs when all have ended although this process is gone by then.
        most: how often a job is submitted again.
        inbox: where their news come from.
        left: what Slurm calls the jobs that have not ended, by position.
    """

    submission: Submission
    tasks: Sequence[SlurmTask]
    workers: int
    afterwards: SlurmTask | None
    most: int
    inbox: Inbox
    left: dict[int, str] = field(default_factory=dict)
    _arrays: list[str] = field(default_factory=list)
    _last: list[str] = field(default_factory=list)
    _again: Counter[int] = field(default_factory=Counter)
    _interrupted: set[int] = field(default_factory=set)
    _ended_since: dict[int, float] = field(default_factory=dict)

    def start(self) -> None:
        """Submit all jobs, and what comes after them.

        Raises:
            OptionError: Slurm refuses them.
        """
        self._submit(range(len(self.tasks)))
        logger.info("submitted to Slurm: %d jobs, as %s", len(self.tasks), self._arrays[0])

    def follow(self, report: Report) -> Generator[tuple[int, Any], None, None]:
        """Yield position and result of what jobs yield, until all have ended.

        Raises:
            EngineError: a job died of itself, was cancelled, or was killed too often.
            Exception: what a job raised.
        """
        asked = time.monotonic()
        while True:
            failed = yield from self._hear(report)
            if failed is not None:  # not before what else is done is known
                raise failed
            if not self.left:
                return
            if time.monotonic() >= asked + _ASK_SECONDS:
                self._ask()
                asked = time.monotonic()
            time.sleep(_LOOK_SECONDS)

    def hand_over(self, report: Report) -> Generator[tuple[int, Any], None, None]:
        """Ask the jobs that run to stop, and yield what they hand over."""
        logger.warning(
            "cancelling %d jobs of Slurm's (%s); what they have finished is kept",
            *(len(self.left), " ".join(self._arrays)),
        )
        self.cancel()
        self._wait_until_gone(_GRACE_SECONDS)
        yield from self._hear(report)

    def cancel(self) -> None:
        """Take all jobs out of the queue."""
        cancel_jobs([*self._arrays, *self._last])

    def end(self) -> bool:
        """Take back what was to come afterwards, and say whether nothing runs any more."""
        cancel_jobs(self._last)
        return self._wait_until_gone(_LATE_SECONDS)

    def _submit(self, places: Sequence[int]) -> str:
        """Submit the jobs of some places, and return what Slurm calls their array."""
        tasks = [self.tasks[place] for place in places]
        jobs = self.submission.submit(tasks, at_once=self.workers)
        self.left |= dict(zip(places, jobs, strict=True))
        array = jobs[0].partition("_")[0]
        self._arrays.append(array)
        if self.afterwards is not None:
            cancel_jobs(self._last)
            self._last = self.submission.submit([self.afterwards], after=self._arrays)
        return array

    def _hear(self, report: Report) -> Generator[tuple[int, Any], None, Exception | None]:
        """Yield the results that have come, and return what a job has raised, if one has."""
        failed = None
        for place, item in self.inbox.take():
            match item:
                case Result(value):
                    yield place, value
                case Begun(job, host, restarts):
                    self._interrupted.discard(place)
                    if restarts:
                        logger.info(_SAID, job, host)
                case Interrupted():
                    self._interrupted.add(place)
                case Ended(error):
                    self.left.pop(place, None)
                    failed = failed or error
                case _:
                    pass_on(item, report)
        return failed

    def _ask(self) -> None:
        """Ask Slurm for the jobs that are left, and submit again those that were killed.

        Raises:
            EngineError: a job died of itself, was cancelled with all others, or was killed too
                often.
        """
        known = job_standings(self._arrays)
        if known is None:
            return
        found = {place: known.get(job, GONE) for place, job in self.left.items()}
        states = {place: one.state for place, one in found.items()}
        if set(states.values()) == {"PENDING"}:
            why = ", ".join(sorted({one.reason for one in found.values()}))
            info_once(logger, "jobs wait in Slurm's queue: %s", why)
        ended = {place: state for place, state in states.items() if state not in LIVE}
        now = time.monotonic()
        since = {place: self._ended_since.get(place, now) for place in ended}
        self._ended_since = since
        if "COMPLETING" in states.values():  # which others may share the fate of
            return
        lost = {
            place: state
            for place, state in ended.items()
            if now - since[place] >= (_LATE_SECONDS if state in _MAY_BE_DONE else _ASK_SECONDS / 2)
        }
        for place, state in lost.items():
            job = self.left[place]
            told = place in self._interrupted or _STRUCK in self._last_words(job)
            if state in _OWN_FAULT and not told:
                raise EngineError(self._death(job, state))
        if lost and all(states[place] == "CANCELLED" for place in self.left):
            raise EngineError(
                f"the jobs of Slurm's that were left were cancelled "
                f"({' '.join(self.left.values())}). {_KEPT}"
            )
        if lost:
            self._submit_again(lost)

    def _submit_again(self, lost: Mapping[int, str]) -> None:
        said = ", ".join(f"{self.left[place]} {state}" for place, state in lost.items())
        self._again.update(lost.keys())
        tries = max(self._again[place] for place in lost)
        if tries > self.most:
            raise EngineError(f"jobs of Slurm's were killed again and again ({said}). {_KEPT}")
        array = self._submit(list(lost))
        logger.warning(
            "jobs of Slurm's were killed (%s): submitted again as %s, time %d of %d. They go on "
            "from what is finished.",
            *(said, array, tries, self.most),
        )

    def _death(self, job: str, state: str) -> str:
        """Return how a job died, with the last that it wrote."""
        log, last = self._log(job), self._last_words(job)
        why = {
            "OUT_OF_MEMORY": "Give it more memory, such as --slurm mem=32GB.",
            "DEADLINE": "It could not begin in time.",
        }.get(state, "" if log.is_file() else "Do its nodes see that folder, and this Python?")
        wrote = f"Its last words: {last:.300} " if last else "It wrote nothing. "
        return f"Slurm job {job} died ({state}). {wrote}See {log}. {why}".strip()

    def _log(self, job: str) -> Path:
        return self.submission.folder / f"{job}_0_log.err"

    def _last_words(self, job: str) -> str:
        log = self._log(job)
        lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _wait_until_gone(self, seconds: float) -> bool:
        """Wait until Slurm has ended all jobs, and say whether it has."""
        end = time.monotonic() + seconds
        while True:
            known = job_standings([*self._arrays, *self._last])
            if known is not None and not any(one.state in LIVE for one in known.values()):
                return True
            if time.monotonic() >= end:
                return False
            time.sleep(_LOOK_SECONDS)
