"""The workers of a call on a Ray cluster: what each takes of a node, how they start and end."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lazy_loader

from probekit.base.plugins import carried
from probekit.engines.ray_cluster.ray_worker import News, RayWorker, Settings
from probekit.errors import EngineError

ray = lazy_loader.load("ray")  # which may not be installed

logger = logging.getLogger(__name__)

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
        self._added = carried()
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
        room = f"{self._share}, which a worker takes"
        if waited >= self._patience:
            raise EngineError(
                f"for {waited:.0f} s no node of the Ray cluster has had {room}: see `ray status`. "
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
