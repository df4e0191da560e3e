"""Overthinking and early exit: what the probe of each depth says of each example."""

from probekit.results.overthinking.depth_predictions import DepthCurve, depth_curves
from probekit.results.overthinking.early_exit import EarlyExit, early_exit
from probekit.results.overthinking.measure import Overthinking, overthinking

__all__ = [
    "DepthCurve",
    "EarlyExit",
    "Overthinking",
    "depth_curves",
    "early_exit",
    "overthinking",
]
