"""Figures from records: layer weights, depth curves, few-shot curves, learning curves."""

from collections.abc import Callable

from matplotlib.figure import Figure

from probekit.plots.depth import plot_depth
from probekit.plots.fewshot import plot_fewshot
from probekit.plots.learning import plot_learning
from probekit.plots.save import save_figure
from probekit.plots.weights import plot_weights

PLOTS: dict[str, Callable[..., Figure]] = {
    "weights": plot_weights,
    "depth": plot_depth,
    "fewshot": plot_fewshot,
    "learning": plot_learning,
}
"""Every figure by name: a function of records that returns a matplotlib ``Figure``."""

__all__ = ["PLOTS", "plot_depth", "plot_fewshot", "plot_learning", "plot_weights", "save_figure"]
