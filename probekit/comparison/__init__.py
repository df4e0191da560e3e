"""Comparisons of two runs: a paired bootstrap over the sentences that both were scored on."""

from probekit.comparison.compare import compare
from probekit.comparison.runs import Run, choose_run

__all__ = ["Run", "choose_run", "compare"]
