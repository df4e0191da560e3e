"""The Ray engine: jobs on actors of a Ray cluster, run again where one is lost."""

from probekit.engines.ray_cluster.ray_engine import RayEngine, run_ray

__all__ = ["RayEngine", "run_ray"]
