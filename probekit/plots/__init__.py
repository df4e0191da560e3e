"""Figures from records: layer weights, curves over depth and data, classes and confusions.

``PLOTS`` names them: the one line that a new figure has outside its own file. Each is imported when
it is asked for, so that the names do without matplotlib.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from probekit.base.registry import LazyRegistry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HERE = "probekit.plots"

PLOTS: "Mapping[str, Callable[..., Figure]]" = LazyRegistry(
    {
        "weights": f"{_HERE}.weights:plot_weights",
        "depth": f"{_HERE}.depth:plot_depth",
        "points": f"{_HERE}.depth:plot_points",
        "fewshot": f"{_HERE}.learning:plot_fewshot",
        "fraction": f"{_HERE}.learning:plot_fraction",
        "learning": f"{_HERE}.learning:plot_learning",
        "classes": f"{_HERE}.classes:plot_classes",
        "confusion": f"{_HERE}.classes:plot_confusion",
        "attention": f"{_HERE}.classes:plot_attention",
        "overthinking": f"{_HERE}.measured:plot_overthinking",
        "exit": f"{_HERE}.measured:plot_exit",
    }
)
"""Functions of records, and of options of their own, that return a matplotlib ``Figure``."""
