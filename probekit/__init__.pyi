from .extraction import ExtractOptions, extract
from .features import Location, open_features
from .plots.amount import plot_fewshot, plot_fraction
from .plots.attention import plot_attention
from .plots.classes import plot_classes
from .plots.confusion import plot_confusion
from .plots.depth import plot_depth
from .plots.learning import plot_learning
from .plots.style import save_figure
from .plots.weights import plot_weights
from .probe.decoders import DECODERS
from .probe.heads import HEADS
from .results import Record, load_records
from .results.comparison import choose_run, compare
from .train.baselines import run_baselines
from .train.saved import predict
from .train.saved.head import TrainedHead
from .train.sweeps import fit, sweep
from .train.sweeps.protocols import PROTOCOLS
from .train.sweeps.specs import TrainSpec, product
from .version import __version__

__all__ = [
    "DECODERS",
    "HEADS",
    "PROTOCOLS",
    "ExtractOptions",
    "Location",
    "Record",
    "TrainSpec",
    "TrainedHead",
    "__version__",
    "choose_run",
    "compare",
    "extract",
    "fit",
    "load_records",
    "open_features",
    "plot_attention",
    "plot_classes",
    "plot_confusion",
    "plot_depth",
    "plot_fewshot",
    "plot_fraction",
    "plot_learning",
    "plot_weights",
    "predict",
    "product",
    "run_baselines",
    "save_figure",
    "sweep",
]
