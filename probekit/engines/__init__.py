"""Engines: run a list of independent jobs, here or on several workers."""

from pathlib import Path

from probekit.base.registry import choose
from probekit.engines.contract import Engine, Job, RemoteEngine, Report
from probekit.engines.local import run_local
from probekit.engines.slurm import SlurmEngine

ENGINES: dict[str, Engine] = {"local": run_local, "slurm": SlurmEngine()}


def engine_of(given: str | Engine) -> Engine:
    """Return an engine: the one of a name, or the one that is given.

    Raises:
        UnknownNameError: there is none of that name.
    """
    return choose("engine", given, ENGINES) if isinstance(given, str) else given


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
    "RemoteEngine",
    "Report",
    "SlurmEngine",
    "engine_of",
    "made_ready",
    "run_local",
]
