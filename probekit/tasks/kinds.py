"""What a label column labels, the metrics that score one, and what the splits are called."""

from collections.abc import Mapping
from typing import Literal

__all__ = ["ALIASES", "HUB_SPLITS", "SPLITS", "Kind", "Metric"]

Kind = Literal["tagging", "sentence", "pair", "regression", "language-modelling"]
Metric = Literal["span-f1", "accuracy", "micro-f1", "f1", "matthews", "spearman", "perplexity"]

SPLITS = ("train", "dev", "test")

HUB_SPLITS: Mapping[str, str] = {"train": "train", "dev": "validation", "test": "test"}
"""What data sets of the Hub usually call them."""

ALIASES: Mapping[str, str] = {
    "train": "train",
    "dev": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "testa": "dev",
    "test": "test",
    "testb": "test",
}
"""What the user's own files may call them, in small letters."""
