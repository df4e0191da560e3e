"""Comparisons: of two runs on the same sentences, and of the depths of a curve with its best."""

from probekit.results.comparison.compare import Comparison, compare, comparison_table
from probekit.results.comparison.depths import BestDepth, best_depth, best_depths, noise_text
from probekit.results.comparison.runs import RecordedRun, choose_run

__all__ = [
    "BestDepth",
    "Comparison",
    "RecordedRun",
    "best_depth",
    "best_depths",
    "choose_run",
    "compare",
    "comparison_table",
    "noise_text",
]
