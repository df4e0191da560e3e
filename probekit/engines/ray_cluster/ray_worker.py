"""What runs on a Ray cluster: workers, one job at a time each, and the news of all of them.

Both are Ray actors. Jobs run in the main thread of a worker, which alone can be interrupted; what
they report, log and yield goes out from a thread of its own, which hears in return whether to stop.
"""

import logging
import os
import queue
import threading
import time
from dataclasses import dataclass
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any

import lazy_loader

from probekit.base.machine.process import STOP
from probekit.engines.contract import Job, heed_stop, run_job
from probekit.version import __version__

ray = lazy_loader.load("ray")  # which may not be installed

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
        added: plug-ins of the process that calls, see `carried`.
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
