"""Engines: run a list of independent tasks, here or on several workers."""

from probekit.engines.local import run_local
from probekit.engines.types import Engine, Report, Task

ENGINES: dict[str, Engine] = {"local": run_local}

__all__ = ["ENGINES", "Engine", "Report", "Task", "run_local"]
