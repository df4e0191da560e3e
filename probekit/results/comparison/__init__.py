"""Comparisons: of two runs, of every two, of rows with a reference, of depths with the best."""

from probekit.results.comparison.compare import (
    BestDepth,
    best_depth,
    best_depths,
    compare,
    comparison_table,
    noise_text,
)
from probekit.results.comparison.judging import Judged
from probekit.results.comparison.pairwise import compare_all, pairs_table, verdicts
from probekit.results.comparison.runs import RecordedRun, choose_run

__all__ = [
    "BestDepth",
    "Judged",
    "RecordedRun",
    "best_depth",
    "best_depths",
    "choose_run",
    "compare",
    "compare_all",
    "comparison_table",
    "noise_text",
    "pairs_table",
    "verdicts",
]
