"""Engines: run a list of independent jobs, here or on several workers."""

from probekit.engines.contract import Engine, Job, Report
from probekit.engines.local import run_local

ENGINES: dict[str, Engine] = {"local": run_local}

__all__ = ["ENGINES", "Engine", "Job", "Report", "run_local"]
