"""What a label column labels, and the metrics that score one."""

from typing import Literal

__all__ = ["Kind", "Metric"]

Kind = Literal["tagging", "sentence", "pair", "regression", "language-modelling"]
Metric = Literal["span-f1", "accuracy", "micro-f1", "f1", "matthews", "spearman", "perplexity"]
