from .amount import plot_fewshot, plot_fraction
from .attention import plot_attention
from .classes import plot_classes
from .confusion import plot_confusion
from .depth import plot_depth
from .figures import PLOTS
from .learning import plot_learning
from .save import save_figure
from .weights import plot_weights

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
