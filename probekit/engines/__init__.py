"""Engines: run a list of independent jobs, here, on several workers, or on a cluster."""

from probekit.base.registry import choose
from probekit.engines.contract import Engine, Job, Report
from probekit.engines.local import run_local
from probekit.engines.ray_cluster import RayEngine, run_ray

ENGINES: dict[str, Engine] = {"local": run_local, "ray": run_ray}


def engine_of(given: str | Engine) -> Engine:
    """Return an engine: the one of a name, or the one that is given.

    Raises:
        UnknownNameError: there is none of that name.
    """
    return choose("engine", given, ENGINES) if isinstance(given, str) else given


def runs_here(engine: Engine) -> bool:
    """Say whether an engine runs jobs on this machine alone, whose devices are known."""
    return engine is run_local


__all__ = [
    "ENGINES",
    "Engine",
    "Job",
    "RayEngine",
    "Report",
    "engine_of",
    "run_local",
    "runs_here",
]
