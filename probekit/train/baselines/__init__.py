"""What a probe's score must be held against: no model, no training, no structure, no meaning."""

from probekit.train.baselines.held_against import run_baselines

__all__ = ["run_baselines"]
