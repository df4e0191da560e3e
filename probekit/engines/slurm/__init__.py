"""The Slurm engine: jobs as an array of a cluster's scheduler, submitted with submitit."""

from probekit.engines.slurm.slurm_engine import SlurmEngine

__all__ = ["SlurmEngine"]
