"""Workers on a Ray cluster, and the jobs that they run: given out, taken back when one is lost.

A job whose worker or node is lost goes first in the queue, and whoever is free next takes it over;
the marks and claims that it left say what is done. Nothing here waits for one worker or one node.
"""

import logging
import os
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lazy_loader

from probekit.base.plugins import carried
from probekit.engines.contract import Job, Report
from probekit.engines.job_run import pass_on
from probekit.engines.ray_worker import Early, News, RayWorker, Settings
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

_SAID_SECONDS = 20.0
"""After how long it is said that no node has room for a worker."""

_LONGEST = 400
"""Characters of Ray's words in a message."""

Found = Generator[tuple[int, Any], None, None]


@dataclass(frozen=True)
class Share:
    """What one worker takes of a node.

    Attributes:
        cpus: which are its threads.
        gpus: GPUs, or a part of one.
    """

    cpus: int
    gpus: float

    def __str__(self) -> str:
        """Return it in words, for messages."""
        return f"{self.cpus} CPUs" + (f" and {self.gpus:g} GPUs" if self.gpus else "")


@dataclass(eq=False)
class _Run:
    """A job on a worker, until it ends or is lost; its steps and results, as far as they came."""

    number: int
    place: int
    steps: int = 0
    results: int = 0


@dataclass(eq=False)
class _Worker:
    """An actor, and what is waited for: its start, or the end of a run; None where it is idle."""

    actor: Any
    awaited: Any
    run: _Run | None = None


class RayCrew:
    """Runs jobs on workers of the cluster that this process is connected to; a context."""

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        workers: int,
        plan: Callable[[], Share],
        patience: float,
        report: Report,
    ) -> None:
        """Start nothing yet but what takes the news.

        Args:
            jobs: what to run.
            workers: how many jobs run at once.
            plan: returns what a worker takes, as the nodes are now.
            patience: seconds to wait while no worker can be started.
            report: receives what the jobs report.
        """
        self._jobs, self._most = jobs, workers
        self._plan, self._share = plan, plan()
        self._patience, self._report = patience, report
        self._queue = deque(range(len(jobs)))
        self._workers: list[_Worker] = []
        self._runs: dict[int, _Run] = {}
        self._begun = 0
        self._lost: Counter[int | None] = Counter()
        self._lost_at: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
        self._idle_since: float | None = None
        self._said = False
        # where the driver is: a node that is lost takes no news along
        here = ray.get_runtime_context().get_node_id()
        beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        self._news = _actor(
            News,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy=beside,
        ).remote()
        self._taken = self._news.take.remote()
        self._added = carried()

    def __enter__(self) -> "RayCrew":
        return self

    def __exit__(self, *error: object) -> None:
        """End the workers, whatever they do."""
        for worker in self._workers:
            ray.kill(worker.actor)
        ray.kill(self._news)

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
            ray.get(self._news.stop.remote())
            self._queue.clear()  # those that have not begun
            end = time.monotonic() + _GRACE_SECONDS
            while self._runs and time.monotonic() < end:
                yield from self._turn(stopping=True)
            raise

    def _hire(self) -> None:
        """Start workers up to the number that there is work for, and hand out jobs."""
        for _ in range(len(self._workers), min(self._most, len(self._queue) + len(self._runs))):
            actor = self._start()
            self._workers.append(_Worker(actor, actor.version.remote()))
        for worker in self._workers:
            if worker.awaited is None and (place := self._next()) is not None:
                self._begun += 1
                worker.run = self._runs[self._begun] = _Run(self._begun, place)
                worker.awaited = worker.actor.run.remote(self._begun, self._jobs[place])
        self._check_room()

    def _start(self) -> Any:
        share = self._share
        settings = Settings(
            news=self._news,
            folder=os.getcwd(),
            threads=share.cpus,
            gpus=share.gpus > 0,
            level=logging.getLogger("probekit").getEffectiveLevel(),
            added=self._added,
        )
        room = {"num_cpus": share.cpus, "num_gpus": share.gpus}
        return _actor(RayWorker, **room, scheduling_strategy="SPREAD").remote(settings)

    def _next(self) -> int | None:
        """Take the first job that may begin out of the queue."""
        now = time.monotonic()
        for place in self._queue:
            if self._not_before.get(place, now) <= now:
                self._queue.remove(place)
                return place
        return None

    def _check_room(self) -> None:
        """Say that no worker could be started for a while, and in the end give up.

        Nodes may have gone since it was settled what a worker takes: those that are left decide it
        anew. What has begun on GPUs does not go on without.

        Raises:
            EngineError: it has been long enough.
        """
        starting = all(worker.awaited is not None for worker in self._workers)
        if self._runs or not starting:
            self._idle_since = None
            return
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        waited = now - self._idle_since
        room = f"{self._share}, which a worker takes"
        if waited >= self._patience:
            raise EngineError(
                f"for {waited:.0f} s no node of the Ray cluster has had {room}: see `ray status`. "
                "What is finished is kept: run the command again when there is room, or with "
                "another --workers or --gpus-per-worker."
            )
        if waited >= _SAID_SECONDS and not self._said:
            self._said = True
            logger.info("waiting for a node of the Ray cluster that has %s", room)
        share = self._plan()
        if share != self._share and (share.gpus == self._share.gpus or not self._begun):
            for worker in self._workers:
                ray.kill(worker.actor)
            self._workers, self._share = [], share

    def _turn(self, stopping: bool = False) -> Found:
        """Wait a moment, and yield what has come; ``stopping`` counts nothing as lost."""
        awaited = {one.awaited: one for one in self._workers if one.awaited is not None}
        ready, _ = ray.wait(
            [*awaited, self._taken], num_returns=len(awaited) + 1, timeout=_POLL_SECONDS
        )
        yield from self._hear()
        ended = [awaited[one] for one in ready if one in awaited]
        # failed ones last: their error ends the work, and what else is done must come first
        for worker in sorted(ended, key=lambda one: _failed(one.awaited)):
            yield from self._end(worker, stopping)

    def _end(self, worker: _Worker, stopping: bool) -> Found:
        """Yield what a run has left; forget a worker that is lost, and put its job back."""
        run = worker.run
        yield from self._hear(until_now=True)
        try:
            found = ray.get(worker.awaited)
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
            self._workers.remove(worker)
            ray.kill(worker.actor)
            self._let_go(worker)
            if not stopping:
                self._lose(run, error)
        else:
            self._let_go(worker)
            if run is None:
                self._lost[None] = 0
                _check_version(found)
            else:
                yield from ((run.place, result) for result in found[run.results :])

    def _let_go(self, worker: _Worker) -> None:
        if worker.run is not None:
            del self._runs[worker.run.number]
        worker.run = worker.awaited = None

    def _still_locked(self, run: _Run, error: Exception) -> bool:
        """Say whether a job met what a lost run of it has locked, and may yet let go of."""
        lost = self._lost_at.get(run.place)
        locked = isinstance(error, EntryLockedError)
        return locked and lost is not None and time.monotonic() - lost < _LOCKED_SECONDS

    def _lose(self, run: _Run | None, error: Exception) -> None:
        """Put the job of a lost run first in the queue, and take back the steps that it reported.

        Raises:
            EngineError: workers cannot be started, or too many were lost.
        """
        place, why = None if run is None else run.place, _words(error)
        if getattr(error, "actor_init_failed", False):
            raise EngineError(
                f"a worker cannot be started on a node of the Ray cluster: {why}. Every node needs "
                "the same Python packages, and the same folders."
            ) from error
        self._lost[place] += 1
        if self._lost[place] >= _MOST_LOST:
            what = "before it began to work" if run is None else "at the same job"
            raise EngineError(
                f"{_MOST_LOST} workers in turn were lost {what}, the last one so: {why}. "
                "What is finished is kept: run the command again with a smaller --memory or fewer "
                "--workers."
            ) from error
        if run is not None:
            logger.warning("a worker was lost, and another one takes over its job: %s", why)
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
            self._taken = self._news.take.remote()

    def _heard(self, run: _Run, news: int | str | Early) -> Iterator[tuple[int, Any]]:
        if not isinstance(news, Early):
            run.steps += news if isinstance(news, int) else 0
            self._report(news)
        elif news.index == run.results:
            run.results += 1
            yield run.place, news.result


def _actor(made: type, **options: Any) -> Any:
    return ray.remote(made).options(**options)


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


def _check_version(found: str) -> None:
    if found != __version__:
        raise EngineError(
            f"a node of the Ray cluster has probekit {found}, and this machine {__version__}: "
            "install the same on all."
        )
