from .extraction import ExtractOptions, extract
from .features import Location, open_features
from .plots import (
    plot_attention,
    plot_classes,
    plot_confusion,
    plot_depth,
    plot_fewshot,
    plot_fraction,
    plot_learning,
    plot_weights,
    save_figure,
)
from .probe.decoders import DECODERS
from .probe.heads import HEADS
from .results import Record, load_records
from .results.comparison import choose_run, compare
from .train.baselines import run_baselines
from .train.saved import predict
from .train.saved.head import TrainedHead
from .train.sweeps.protocols import PROTOCOLS
from .train.sweeps.run import fit, sweep
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
