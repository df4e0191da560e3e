"""Engines: run a list of independent jobs, here, on several workers, or on a cluster."""

from pathlib import Path

from probekit.base.registry import choose
from probekit.engines.contract import Engine, Job, RemoteEngine, Report
from probekit.engines.local import run_local
from probekit.engines.ray_cluster import RayEngine, run_ray
from probekit.engines.slurm import SlurmEngine

ENGINES: dict[str, Engine] = {"local": run_local, "ray": run_ray, "slurm": SlurmEngine()}


def engine_of(given: str | Engine) -> Engine:
    """Return an engine: the one of a name, or the one that is given.

    Raises:
        UnknownNameError: there is none of that name.
    """
    return choose("engine", given, ENGINES) if isinstance(given, str) else given


def runs_here(engine: Engine) -> bool:
    """Say whether an engine runs jobs on this machine alone, whose devices are known."""
    return engine is run_local


def made_ready(engine: Engine, folder: Path, afterwards: Job | None = None) -> Engine:
    """Return an engine for jobs that write into a folder: see `RemoteEngine`; others stay.

    Raises:
        OptionError: it cannot be used here.
    """
    return engine.ready_for(folder, afterwards) if isinstance(engine, RemoteEngine) else engine


__all__ = [
    "ENGINES",
    "Engine",
    "Job",
    "RayEngine",
    "RemoteEngine",
    "Report",
    "SlurmEngine",
    "engine_of",
    "made_ready",
    "run_local",
    "runs_here",
]
