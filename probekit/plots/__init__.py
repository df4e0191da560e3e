"""Figures from records: layer weights, curves over depth and data, classes and confusions."""

from collections.abc import Callable

from matplotlib.figure import Figure

from probekit.plots.attention import plot_attention
from probekit.plots.classes import plot_classes
from probekit.plots.confusion import plot_confusion
from probekit.plots.depth import plot_depth
from probekit.plots.fewshot import plot_fewshot
from probekit.plots.fraction import plot_fraction
from probekit.plots.learning import plot_learning
from probekit.plots.save import save_figure
from probekit.plots.weights import plot_weights

PLOTS: dict[str, Callable[..., Figure]] = {
    "weights": plot_weights,
    "depth": plot_depth,
    "fewshot": plot_fewshot,
    "fraction": plot_fraction,
    "learning": plot_learning,
    "classes": plot_classes,
    "confusion": plot_confusion,
    "attention": plot_attention,
}
"""Every figure by name: a function of records that returns a matplotlib ``Figure``."""

__all__ = [
    "PLOTS",
    "plot_attention",
    "plot_classes",
    "plot_confusion",
    "plot_depth",
    "plot_fewshot",
    "plot_fraction",
    "plot_learning",
    "plot_weights",
    "save_figure",
]
