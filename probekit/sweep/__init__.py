"""Sweeps: many training runs that share their reads, recorded as they finish, resumable."""

from probekit.sweep.run import run_sweep

__all__ = ["run_sweep"]
