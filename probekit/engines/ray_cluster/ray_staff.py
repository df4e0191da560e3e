"""The workers of a Ray cluster: what each takes of a node, how it starts, works and ends.

`News` and `RayWorker` are Ray actors. Jobs run in the main thread of a worker, which alone can be
interrupted; what they report, log and yield goes out from a thread of its own, which hears in
return whether to stop.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any

import lazy_loader

from probekit.base.machine import STOP
from probekit.base.plugins import pickled_plugins
from probekit.engines.contract import Job, heed_stop, run_job
from probekit.errors import EngineError
from probekit.version import __version__

ray = lazy_loader.load("ray")  # which may not be installed

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 0.2


@dataclass(frozen=True)
class Early:
    """A result that is told of before its job has ended.

    Attributes:
        index: how many the job has yielded before.
        result: the result.
    """

    index: int
    result: Any


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all workers of one call have in common.

    Attributes:
        news: the actor that takes their news.
        folder: where relative paths begin.
        threads: of each worker.
        gpus: whether it has any.
        level: of messages.
        added: plug-ins of the process that calls, see `pickled_plugins`.
    """

    news: Any
    folder: str
    threads: int
    gpus: bool
    level: int
    added: bytes | None


class News:
    """Takes what workers have to tell until it is asked for, and tells them to stop."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._stopped = False

    def put(self, items: list[Any]) -> bool:
        """Take news; return whether the worker is to stop."""
        self._items += items
        return self._stopped

    def take(self) -> list[Any]:
        """Return what has come since the last time: a message, or the number of a run and news."""
        items, self._items = self._items, []
        return items

    def stop(self) -> None:
        """Tell every worker to hand over what it has finished."""
        self._stopped = True


class RayWorker:
    """Runs one job after the other."""

    def __init__(self, settings: Settings) -> None:
        """Set this process up.

        Raises:
            FileNotFoundError: the folder is not on this node.
        """
        if not Path(settings.folder).is_dir():
            raise FileNotFoundError(
                f"there is no folder {settings.folder} on {os.uname().nodename}: start from a "
                "folder that all nodes share"
            )
        os.chdir(settings.folder)
        if not settings.gpus:  # those of others, which Ray does not hide
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        heed_stop()
        self._settings = settings
        self._unsent: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._sending = threading.Lock()
        handlers = [QueueHandler(self._unsent)]
        logging.basicConfig(level=settings.level, format="%(message)s", handlers=handlers)
        import torch

        torch.set_num_threads(settings.threads)
        threading.Thread(target=self._keep_sending, name="probekit-news", daemon=True).start()

    def version(self) -> str:
        """Return the version of probekit on this node."""
        return __version__

    def run(self, number: int, job: Job) -> list[Any]:
        """Run a job, and return all that it yields, told of before or not.

        Args:
            number: of this run, which its news are marked with.
            job: the job.
        """
        count = 0

        def heard(result: Any) -> None:
            nonlocal count
            self._unsent.put((number, Early(count, result)))
            count += 1

        def report(news: int | str) -> None:
            self._unsent.put((number, news))

        try:
            return run_job(job, self._settings.added, report, heard)
        finally:
            self._send()

    def _keep_sending(self) -> None:
        while not self._send():
            time.sleep(_BEAT_SECONDS)
        os.kill(os.getpid(), STOP)

    def _send(self) -> bool:
        """Send what there is to tell, and return whether to stop."""
        with self._sending:
            items = []
            while not self._unsent.empty():
                items.append(self._unsent.get())
            return ray.get(self._settings.news.put.remote(items))


_SAID_SECONDS = 20.0
"""After how long it is said that no node has room for a worker."""


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
class Run:
    """A job on a worker, until it ends or is lost.

    Attributes:
        number: of all runs of a call.
        place: which job it is.
        steps: how many it has reported.
        results: how many it has yielded.
    """

    number: int
    place: int
    steps: int = 0
    results: int = 0


@dataclass(eq=False)
class Worker:
    """A worker, or one that is to start.

    Attributes:
        actor: what runs it.
        awaited: its start, or the end of its run; None where it is idle.
        run: what it is at.
    """

    actor: Any
    awaited: Any
    run: Run | None = None


class Staff:
    """Starts workers, where nodes have room for them.

    Attributes:
        news: the actor that takes their news.
        workers: those that are there, or are to start.
    """

    def __init__(self, plan: Callable[[], Share], patience: float) -> None:
        """Start what takes the news, and nothing else.

        Args:
            plan: returns what a worker takes, as the nodes are now.
            patience: seconds to wait while no worker can be started.

        Raises:
            PluginError: a plug-in cannot be sent to workers.
        """
        self._plan, self._share, self._patience = plan, plan(), patience
        self._added = pickled_plugins()
        # where the driver is: a node that is lost takes no news along
        here = ray.get_runtime_context().get_node_id()
        beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        self.news = ray.remote(News).options(**options, scheduling_strategy=beside).remote()
        self.workers: list[Worker] = []
        self._since: float | None = None
        self._said = False

    def end(self) -> None:
        """End the workers, whatever they do."""
        for worker in self.workers:
            ray.kill(worker.actor)
        ray.kill(self.news)

    def dismiss(self, worker: Worker) -> None:
        """End a worker that is lost, in case that it is not."""
        self.workers.remove(worker)
        ray.kill(worker.actor)

    def fill(self, count: int) -> None:
        """Start workers until there are so many."""
        for _ in range(len(self.workers), count):
            actor = self._start()
            self.workers.append(Worker(actor, actor.version.remote()))

    def _start(self) -> Any:
        share = self._share
        settings = Settings(
            news=self.news,
            folder=os.getcwd(),
            threads=share.cpus,
            gpus=share.gpus > 0,
            level=logging.getLogger("probekit").getEffectiveLevel(),
            added=self._added,
        )
        options = {"num_cpus": share.cpus, "num_gpus": share.gpus, "scheduling_strategy": "SPREAD"}
        return ray.remote(RayWorker).options(**options).remote(settings)

    def check_room(self, begun: bool) -> None:
        """Say that no worker could be started for a while, and in the end give up.

        Nodes may have gone since it was settled what a worker takes: those that are left decide it
        anew. What has begun on GPUs does not go on without.

        Args:
            begun: whether any worker has begun to work.

        Raises:
            EngineError: it has been long enough.
        """
        if any(worker.run is not None or worker.awaited is None for worker in self.workers):
            self._since = None
            return
        self._since = self._since or time.monotonic()
        waited = time.monotonic() - self._since
        room = f"{self._share} for a worker"
        if waited >= self._patience:
            raise EngineError(
                f"no node of the Ray cluster has had {room} for {waited:.0f} s: see `ray status`. "
                "What is finished is kept: run the command again when there is room, or with "
                "another --workers or gpus_per_worker."
            )
        if waited >= _SAID_SECONDS and not self._said:
            self._said = True
            logger.info("waiting for a node of the Ray cluster that has %s", room)
        share = self._plan()
        if share != self._share and (share.gpus == self._share.gpus or not begun):
            for worker in self.workers:
                ray.kill(worker.actor)
            self.workers, self._share = [], share
