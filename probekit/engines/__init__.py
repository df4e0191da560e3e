"""Engines: run a list of independent jobs, here, on several workers, or on a cluster."""

from probekit.base.registry import choose, parse
from probekit.engines.contract import Engine, Job, Report
from probekit.engines.local import check_workers, run_local
from probekit.engines.ray_engine import RayEngine, run_ray

ENGINES: dict[str, Engine] = {"local": run_local, "ray": run_ray}


def engine_of(given: str | Engine) -> Engine:
    """Return an engine: the one of a name, perhaps with options, or the one that is given.

    Args:
        given: ``local``, ``ray``, ``ray:gpus_per_worker=0.5``; or an engine.

    Raises:
        UnknownNameError: there is none of that name.
        OptionError: it does not have that option, or cannot use it.
    """
    if not isinstance(given, str):
        return given
    if given.partition(":")[0] == "ray":
        return parse("engine", given, {"ray": RayEngine})
    return choose("engine", given, ENGINES)


def runs_here(engine: Engine) -> bool:
    """Say whether an engine runs jobs on this machine alone, whose devices are known."""
    return engine is run_local


__all__ = [
    "ENGINES",
    "Engine",
    "Job",
    "RayEngine",
    "Report",
    "check_workers",
    "engine_of",
    "run_local",
    "runs_here",
]
