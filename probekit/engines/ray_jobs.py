"""Jobs as tasks of Ray, which finds a node for each, and runs it again where its worker is lost.

The marks and claims that a lost run left say what is done. Every task has a process of its own, in
whose main thread, which alone can be interrupted, the job runs. What it reports, logs and yields
goes to an actor beside the driver, which says in return whether to stop.
"""

import logging
import os
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any

import lazy_loader

from probekit.base.machine import STOP, interrupts_held
from probekit.base.plugins import pickled_plugins
from probekit.engines.contract import Job, Report, heed_stop, pass_on, run_job
from probekit.errors import EngineError, EntryLockedError, reason_of

ray = lazy_loader.load("ray")  # which may not be installed

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2

_GRACE_SECONDS = 120.0
"""How long workers may take to hand over what they have finished, once they are asked to stop."""

_LOCKED_SECONDS = 180.0
"""How long the files that a lost run had locked may stay so: a file server waits for its client."""

MOST_LOST = 5
"""How many runs of one job may be lost."""

_BEGUN, _YIELDED, _REPORTED = "begun", "yielded", "reported"
"""What a job may tell: that it has begun, again if its worker was lost; a result; or news."""


class News:
    """Takes what workers have to tell until it is asked for, and tells them to stop."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._begun: Counter[int] = Counter()
        self._stopped = False

    def begin(self, position: int) -> int:
        """Note that a job has begun; return how often it had before, and was lost."""
        self._items.append((position, _BEGUN, None))
        self._begun[position] += 1
        return self._begun[position] - 1

    def put(self, items: list[Any]) -> bool:
        """Take news; return whether the worker is to stop."""
        self._items += items
        return self._stopped

    def take(self) -> list[Any]:
        """Return what has come since the last time: messages, and of which job is what news."""
        items, self._items = self._items, []
        return items

    def stop(self) -> None:
        """Tell every worker to hand over what it has finished."""
        self._stopped = True


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one worker takes of a node.

    Attributes:
        cpus: its cores, and threads of torch.
        gpus: GPUs, or a part of one.
    """

    cpus: int
    gpus: float

    def __str__(self) -> str:
        """Return it in words, for messages."""
        return f"{self.cpus} CPUs" + (f" and {self.gpus:g} GPUs" if self.gpus else "")


class _Sender:
    """Sends what a job has to tell, from a thread of its own, and interrupts it when asked to."""

    def __init__(self, news: Any) -> None:
        self._news, self._unsent = news, queue.SimpleQueue[Any]()
        self._sending = threading.Lock()
        self.handler = QueueHandler(self._unsent)
        self.put = self._unsent.put
        threading.Thread(target=self._keep_sending, name="probekit-news", daemon=True).start()

    def _keep_sending(self) -> None:
        while not self.send():
            time.sleep(_POLL_SECONDS)
        os.kill(os.getpid(), STOP)

    def send(self) -> bool:
        """Send what there is to tell, and return whether to stop."""
        with self._sending:
            items = []
            while not self._unsent.empty():
                items.append(self._unsent.get())
            return bool(ray.get(self._news.put.remote(items)))


def _work(
    news: Any, share: Share, folder: str, level: int, added: bytes | None, position: int, job: Job
) -> None:
    """Run a job in a process of its own; all that it yields is told.

    Args:
        news: the actor that takes it.
        share: what the worker takes.
        folder: where it works.
        level: of messages.
        added: plug-ins that were registered on the driver.
        position: of the job.
        job: what to run.
    """
    if not Path(folder).is_dir():
        raise EngineError(
            f"the node {os.uname().nodename} of the Ray cluster has no folder {folder}: start from "
            "a folder that all nodes share."
        )
    os.chdir(folder)
    if not share.gpus:  # those of others, which Ray does not hide
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    heed_stop()
    sender = _Sender(news)
    logging.basicConfig(level=level, format="%(message)s", handlers=[sender.handler])
    import torch

    torch.set_num_threads(share.cpus)
    lost = ray.get(news.begin.remote(position))
    end = time.monotonic() + (_LOCKED_SECONDS if lost else 0)

    def report(said: int | str) -> None:
        sender.put((position, _REPORTED, said))

    def heard(result: Any) -> None:
        sender.put((position, _YIELDED, result))

    try:
        while True:
            try:
                run_job(job, added, report, heard)
                return
            except EntryLockedError:  # by a lost run of this job, perhaps
                if time.monotonic() >= end:
                    raise
                time.sleep(1.0)
    finally:
        sender.send()


class RayJobs:
    """Jobs on the cluster that this process is connected to."""

    def __init__(
        self, jobs: Sequence[Job], share: Share, *, workers: int, patience: float, report: Report
    ) -> None:
        """Start what takes the news, and no job yet.

        Args:
            jobs: what to run.
            share: what each worker takes.
            workers: how many jobs run at once.
            patience: seconds to wait for room, while none runs.
            report: receives what the jobs report.
        """
        self._share, self._workers, self._patience = share, workers, patience
        self._report = report
        self._queue = deque(enumerate(jobs))
        self._running: dict[Any, int] = {}
        self._results: deque[tuple[int, Any]] = deque()
        self._steps: Counter[int] = Counter()
        self._at_work: set[int] = set()
        self._begun: set[int] = set()
        self._idle_since = time.monotonic()
        # where the driver is: a node that is lost takes no news along
        here = ray.get_runtime_context().get_node_id()
        beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        self._news = ray.remote(num_cpus=0, scheduling_strategy=beside)(News).remote()
        self._task = ray.remote(
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            max_calls=1,
            max_retries=MOST_LOST - 1,
            scheduling_strategy="SPREAD",
        )(_work)
        level = logging.getLogger("probekit").getEffectiveLevel()
        self._given = self._news, share, os.getcwd(), level, pickled_plugins()

    def results(self) -> Generator[tuple[int, Any], None, None]:
        """Yield the position of a job and a result, for every result; see `Engine`.

        Raises:
            EngineError: workers are lost again and again, or no node has room.
        """
        try:
            while self._queue or self._running:
                while self._queue and len(self._running) < self._workers:
                    position, job = self._queue.popleft()
                    self._running[self._task.remote(*self._given, position, job)] = position
                yield from self._turn()
                self._check_room()
        except KeyboardInterrupt:
            ray.get(self._news.stop.remote())
            self._hear()  # which jobs are at work
            end = time.monotonic() + _GRACE_SECONDS
            while self._at_work and time.monotonic() < end:
                yield from self._turn(stopping=True)
            yield from self._heard()
            raise
        finally:
            for ref in self._running:
                ray.cancel(ref, force=True)
            ray.kill(self._news)

    def _turn(self, stopping: bool = False) -> Generator[tuple[int, Any], None, None]:
        """Wait a moment, and yield what has come; ``stopping`` takes no error for one."""
        ended, _ = ray.wait([*self._running], num_returns=len(self._running), timeout=_POLL_SECONDS)
        self._hear()
        yield from self._heard()
        error: Exception | None = None
        for ref in ended:
            self._at_work.discard(self._running.pop(ref))
            try:
                ray.get(ref)
            except ray.exceptions.RayError as failed:
                error = failed
        if error is None or stopping:
            return
        if not isinstance(error, ray.exceptions.RayTaskError):
            raise EngineError(
                f"{MOST_LOST} workers in a row were lost at the same job; the last reason was: "
                f"{reason_of(error)}. What is finished is kept: run the command again with fewer "
                "--workers."
            ) from error
        raise (error.cause if isinstance(error.cause, Exception) else error) from error

    def _hear(self) -> None:
        """Pass on what workers had to tell, and note their results; an interrupt loses none."""
        with interrupts_held():
            for item in ray.get(self._news.take.remote()):
                if isinstance(item, logging.LogRecord):
                    pass_on(item, self._report)
                    continue
                position, what, news = item
                if what == _YIELDED:
                    self._results.append((position, news))
                elif what == _BEGUN:
                    self._begin(position)
                else:
                    self._steps[position] += news if isinstance(news, int) else 0
                    self._report(news)

    def _heard(self) -> Iterator[tuple[int, Any]]:
        """Yield the results that were heard of."""
        while self._results:
            yield self._results.popleft()

    def _begin(self, position: int) -> None:
        """Note that a job is at work; where it was lost, take back the steps that it reported."""
        if position in self._begun:
            logger.warning("a worker was lost, and another takes over its job")
            self._report(-self._steps.pop(position, 0))
        self._begun.add(position)
        self._at_work.add(position)

    def _check_room(self) -> None:
        """Give up where no job could begin for a while.

        Raises:
            EngineError: for so long.
        """
        if self._at_work or not self._running:
            self._idle_since = time.monotonic()
        elif (waited := time.monotonic() - self._idle_since) > self._patience:
            raise EngineError(
                f"no node of the Ray cluster has had {self._share} for a worker for {waited:.0f} "
                "s: see `ray status`. What is finished is kept: run the command again when there "
                "is room, or with another --workers or gpus_per_worker."
            )
