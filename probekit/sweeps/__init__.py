"""Sweeps: many training runs that share their reads, recorded as they finish, resumable."""

from probekit.sweeps.run import sweep
from probekit.sweeps.single import fit

__all__ = ["fit", "sweep"]
