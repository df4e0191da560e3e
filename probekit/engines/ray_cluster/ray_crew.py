"""Jobs on the workers of a Ray cluster: given out, and taken back when a worker is lost.

A job whose worker or node is lost goes first in the queue, and whoever is free next takes it over;
the marks and claims that it left say what is done. Nothing here waits for one worker or one node.
"""

import logging
import re
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Self

import lazy_loader

from probekit.engines.contract import Job, Report, pass_on
from probekit.engines.ray_cluster.ray_staff import Early, Run, Staff, Worker
from probekit.errors import EngineError, EntryLockedError
from probekit.version import __version__

ray = lazy_loader.load("ray")  # which may not be installed

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2

_GRACE_SECONDS = 120.0
"""How long workers may take to hand over what they have finished, once they are asked to stop."""

_LOCKED_SECONDS = 180.0
"""How long the files that a lost run had locked may stay so: a file server waits for its client."""

_MOST_LOST = 5
"""How many runs of one job may be lost."""

_LONGEST = 400
"""Characters of Ray's words in a message."""

Found = Generator[tuple[int, Any], None, None]


class RayCrew:
    """Runs jobs on workers of the cluster that this process is connected to; a context."""

    def __init__(self, jobs: Sequence[Job], staff: Staff, *, workers: int, report: Report) -> None:
        """Begin nothing yet.

        Args:
            jobs: what to run.
            staff: starts workers.
            workers: how many jobs run at once.
            report: receives what the jobs report.
        """
        self._jobs, self._staff, self._most, self._report = jobs, staff, workers, report
        self._queue = deque(range(len(jobs)))
        self._runs: dict[int, Run] = {}
        self._begun = 0
        self._lost: Counter[int | None] = Counter()
        self._lost_at: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
        self._taken = staff.news.take.remote()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the workers."""
        self._staff.end()

    def results(self) -> Found:
        """Yield the place of a job and a result, for every result; see `Engine`.

        Raises:
            EngineError: a job's workers are lost again and again, or no node has room for one.
        """
        try:
            while self._queue or self._runs:
                self._hire()
                yield from self._turn()
        except KeyboardInterrupt:
            ray.get(self._staff.news.stop.remote())
            self._queue.clear()  # those that have not begun
            end = time.monotonic() + _GRACE_SECONDS
            while self._runs and time.monotonic() < end:
                yield from self._turn(stopping=True)
            raise

    def _hire(self) -> None:
        """Have workers started up to the number that there is work for, and hand out jobs."""
        self._staff.fill(min(self._most, len(self._queue) + len(self._runs)))
        for worker in self._staff.workers:
            if worker.awaited is None and (position := self._next()) is not None:
                self._begun += 1
                worker.run = self._runs[self._begun] = Run(self._begun, position)
                worker.awaited = worker.actor.run.remote(self._begun, self._jobs[position])
        self._staff.check_room(self._begun > 0)

    def _next(self) -> int | None:
        """Take the first job that may begin out of the queue."""
        now = time.monotonic()
        for position in self._queue:
            if self._not_before.get(position, now) <= now:
                self._queue.remove(position)
                return position
        return None

    def _turn(self, stopping: bool = False) -> Found:
        """Wait a moment, and yield what has come; ``stopping`` counts nothing as lost."""
        awaited = {w.awaited: w for w in self._staff.workers if w.awaited is not None}
        ready, _ = ray.wait(
            [*awaited, self._taken], num_returns=len(awaited) + 1, timeout=_POLL_SECONDS
        )
        yield from self._hear()
        ended = [awaited[ref] for ref in ready if ref in awaited]
        # failed ones last: their error ends the work, and what else is done must come first
        for worker in sorted(ended, key=lambda worker: _failed(worker.awaited)):
            yield from self._end(worker, stopping)

    def _end(self, worker: Worker, stopping: bool) -> Found:
        """Yield what a run has left; forget a worker that is lost, and put its job back."""
        run = worker.run
        yield from self._hear(until_now=True)
        try:
            outcome = ray.get(worker.awaited)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            if run is not None and self._still_locked(run, cause):
                self._let_go(worker)
                self._queue.append(run.place)
                self._not_before[run.place] = time.monotonic() + 1.0
            elif not stopping:
                raise cause from error
            else:
                self._let_go(worker)
        except ray.exceptions.RayError as error:
            self._staff.dismiss(worker)
            self._let_go(worker)
            if not stopping:
                self._lose(run, error)
        else:
            self._let_go(worker)
            if run is None:
                self._lost[None] = 0
                _check_version(outcome)
            else:
                yield from ((run.place, result) for result in outcome[run.results :])

    def _let_go(self, worker: Worker) -> None:
        if worker.run is not None:
            del self._runs[worker.run.number]
        worker.run = worker.awaited = None

    def _still_locked(self, run: Run, error: Exception) -> bool:
        """Say whether a job met what a lost run of it has locked, and may yet let go of."""
        lost = self._lost_at.get(run.place)
        locked = isinstance(error, EntryLockedError)
        return locked and lost is not None and time.monotonic() - lost < _LOCKED_SECONDS

    def _lose(self, run: Run | None, error: Exception) -> None:
        """Put the job of a lost run first in the queue, and take back the steps that it reported.

        Raises:
            EngineError: workers cannot be started, or too many were lost.
        """
        position, why = None if run is None else run.place, _words(error)
        if getattr(error, "actor_init_failed", False):
            raise EngineError(
                f"a worker cannot be started on a node of the Ray cluster: {why}. Every node needs "
                "the same Python packages, and the same folders."
            ) from error
        self._lost[position] += 1
        if self._lost[position] >= _MOST_LOST:
            what = "before it began to work" if run is None else "at the same job"
            raise EngineError(
                f"{_MOST_LOST} workers in a row were lost {what}; the last reason was: {why}. "
                "What is finished is kept: run the command again with fewer --workers."
            ) from error
        if run is not None:
            logger.warning("a worker was lost, and another takes over its job: %s", why)
            self._report(-run.steps)
            self._lost_at[run.place] = time.monotonic()
            self._queue.appendleft(run.place)

    def _hear(self, until_now: bool = False) -> Iterator[tuple[int, Any]]:
        """Pass on what workers had to tell, and yield results that came before the end of a job.

        Args:
            until_now: wait for all that has been told.
        """
        for _ in range(2 if until_now else 1):  # what was asked for before, and what came since
            if not until_now and not _is_there(self._taken):
                return
            for item in ray.get(self._taken):
                if not isinstance(item, tuple):
                    pass_on(item, self._report)
                elif (run := self._runs.get(item[0])) is not None:  # not one that is lost
                    yield from self._heard(run, item[1])
            self._taken = self._staff.news.take.remote()

    def _heard(self, run: Run, news: int | str | Early) -> Iterator[tuple[int, Any]]:
        if not isinstance(news, Early):
            run.steps += news if isinstance(news, int) else 0
            self._report(news)
        elif news.index == run.results:
            run.results += 1
            yield run.place, news.result


def _is_there(ref: Any) -> bool:
    return bool(ray.wait([ref], timeout=0)[0])


def _failed(ref: Any) -> bool:
    try:
        ray.get(ref)
    except ray.exceptions.RayError:
        return True
    return False


def _words(error: Exception) -> str:
    """Return why a worker was lost, in a sentence, and which: Ray writes a page about it."""
    lines = str(error).splitlines()
    known = dict(line.strip().split(": ", 1) for line in lines if re.match(r"\t\w+: ", line))
    said = [line for line in lines if not line.startswith("\t")]
    if not known:  # it never ran
        return " ".join(said)[-_LONGEST:]
    reason = " ".join(said[1:] or said).split(". ")[0].rstrip(".")
    where = f"process {known.get('pid', '?')} on {known.get('ip', '?')}"
    return f"{reason:.{_LONGEST}} ({where})"


def _check_version(version: str) -> None:
    if version != __version__:
        raise EngineError(
            f"a node of the Ray cluster has probekit {version}, and this machine {__version__}: "
            "install the same version on both."
        )
