"""The Ray engine: jobs on the nodes of a Ray cluster, a running one or one that is started here."""

import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from probekit.base.installation import install_extra
from probekit.base.machine import usable_cores
from probekit.engines.contract import Job, Report
from probekit.engines.local import check_workers
from probekit.errors import EngineError, OptionError, reason_of

logger = logging.getLogger(__name__)

ADDRESS = "RAY_ADDRESS"
"""Environment variable of the running cluster, which Ray sets for the jobs that it is given."""

_OBJECTS = 512 * 2**20
"""Bytes for objects of a cluster that is started here: jobs and records alone."""

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
"""Ray reports nothing to its makers, and prints nothing to stdout, where tables and JSON go."""

_SOON_SECONDS = 10.0
"""How long the first node of a cluster may take to answer."""

_REFUSALS = (ConnectionError, OSError, RuntimeError, ValueError, TimeoutError)
"""What Ray raises where it cannot connect."""


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """Runs jobs on a Ray cluster, whose nodes share the folders of this one.

    A process that is connected to a cluster uses that one.

    Attributes:
        address: of a running cluster, such as ``auto`` or ``10.0.0.1:6379``; None is that of
            ``RAY_ADDRESS``, or else a cluster of this machine that is started for a call.
        gpus_per_worker: GPUs of each worker, or a part of one; None is one where nodes have some.
        patience: seconds to wait for a node that has room for a worker, while none works.

    Raises:
        OptionError: an option cannot be used, or Ray is not installed.
    """

    address: str | None = None
    gpus_per_worker: float | None = None
    patience: float = 300.0

    def __post_init__(self) -> None:
        """Check the options."""
        if self.address is not None:
            _check_address(self.address)
        gpus = self.gpus_per_worker
        if gpus is not None and not (0 <= gpus <= 1 or (gpus > 1 and float(gpus).is_integer())):
            raise OptionError(
                f"gpus_per_worker {gpus:g}: expected a part of one GPU, such as 0.5, or a whole "
                "number of them."
            )
        if find_spec("ray") is None:
            raise OptionError(f"--engine ray needs the package ray. {install_extra('ray')}")

    def __call__(
        self, jobs: Sequence[Job], *, workers: int, report: Report
    ) -> Generator[tuple[int, Any], None, None]:
        """Run jobs (see ``Engine``); one whose worker or node is lost is run again.

        Raises:
            OptionError: ``workers`` is less than one.
            EngineError: the cluster cannot be reached, has no room for a worker, or loses the
                workers of a job again and again.
        """
        check_workers(workers)
        if not jobs:
            return
        with _connected(self.address, workers):
            import ray

            from probekit.engines.ray_jobs import RayJobs, Share

            there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            nodes = [Node(has.get("CPU", 0.0), has.get("GPU", 0.0)) for has in there]
            gpus = self.gpus_per_worker
            gpus = float(any(node.gpus >= 1 for node in nodes)) if gpus is None else gpus
            share = Share(cpus=threads_each(nodes, workers, gpus), gpus=gpus)
            if not any(node.room(share.cpus, gpus) for node in nodes):
                logger.info("waiting for a node of the Ray cluster that has %s", share)
            running = RayJobs(jobs, share, workers=workers, patience=self.patience, report=report)
            yield from running.results()


def run_ray(
    jobs: Sequence[Job], *, workers: int, report: Report
) -> Generator[tuple[int, Any], None, None]:
    """Run jobs on Ray, where its environment says or here; errors are those of `RayEngine`."""
    yield from RayEngine()(jobs, workers=workers, report=report)


@dataclass(frozen=True)
class Node:
    """What a node has.

    Attributes:
        cpus: cores that Ray gives out.
        gpus: GPUs.
    """

    cpus: float
    gpus: float = 0.0

    def room(self, cpus: int, gpus: float) -> int:
        """Return how many workers fit that take so much each."""
        by_cpu = int(self.cpus // cpus)
        if gpus == 0:
            return by_cpu
        # a worker's part is of one GPU
        by_gpu = int(self.gpus) * int(1 / gpus + 1e-9) if gpus < 1 else int(self.gpus // gpus)
        return min(by_cpu, by_gpu)


def threads_each(nodes: Sequence[Node], workers: int, gpus: float) -> int:
    """Return how many cores each worker gets: as many as leave room for all that fit at once.

    Args:
        nodes: of the cluster.
        workers: how many are wanted.
        gpus: of each of them.
    """
    fit = min(workers, sum(node.room(1, gpus) for node in nodes))
    cores = math.floor(max((node.cpus for node in nodes), default=1))
    counts = range(max(cores, 1), 1, -1)
    return next((n for n in counts if sum(node.room(n, gpus) for node in nodes) >= fit > 0), 1)


def _check_address(address: str) -> None:
    """Refuse an address of another kind.

    Raises:
        OptionError: it is that of a client, or of a dashboard.
    """
    if "://" in address:
        raise OptionError(
            f"Ray's address {address}: probekit has to run on a node of the cluster. Run it "
            "there, with the address auto, or HOST:6379 as `ray start` prints it."
        )


@contextmanager
def _connected(address: str | None, workers: int) -> Iterator[None]:
    """Be connected to a cluster, if need be to one of this machine that ends with the context."""
    for name, value in _QUIET.items():  # read when Ray is imported
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get(ADDRESS)
    how: dict[str, Any] = {"address": address}
    if address is None:
        cores = max(usable_cores(), workers)
        how = {"address": "local", "num_cpus": cores, "include_dashboard": False}
        how["object_store_memory"] = _OBJECTS
    else:
        _check_address(address)
    try:
        # where nothing listens, Ray would wait for minutes
        host, colon, port = how["address"].rpartition(":")
        if colon and port.isdecimal():
            socket.create_connection((host.strip("[]"), int(port)), _SOON_SECONDS).close()
        with _sigterm_kept():
            ray.init(**how, log_to_driver=False, logging_level="error")
    except _REFUSALS as error:
        why = reason_of(error)
        raise EngineError(
            f"no Ray cluster can be reached at {address}: {why}. `ray status` shows what is "
            f"running; without {ADDRESS}, probekit starts Ray here."
            if address
            else f"Ray cannot be started here: {why}."
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Restore what SIGTERM does, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
