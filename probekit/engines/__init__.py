"""Engines: run a list of independent jobs, here or on several workers."""

from probekit.base.registry import choose
from probekit.engines.contract import Engine, Job, Report
from probekit.engines.local import run_local

ENGINES: dict[str, Engine] = {"local": run_local}


def engine_of(given: str | Engine) -> Engine:
    """Return an engine: the one of a name, or the one that is given.

    Raises:
        UnknownNameError: there is none of that name.
    """
    return choose("engine", given, ENGINES) if isinstance(given, str) else given


__all__ = ["ENGINES", "Engine", "Job", "Report", "engine_of", "run_local"]
