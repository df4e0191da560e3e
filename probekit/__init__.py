"""probekit: cache every layer of a frozen transformer once, then probe it from the cache.

The names below are loaded on first use, so that ``import probekit`` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probekit.baselines import run_baselines
    from probekit.comparison import choose_run, compare
    from probekit.decoders import DECODERS
    from probekit.extraction import ExtractOptions, extract
    from probekit.features import Location, open_features
    from probekit.heads import HEADS
    from probekit.plots import (
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
    from probekit.prediction import predict
    from probekit.protocols import PROTOCOLS
    from probekit.results import Record, load_records
    from probekit.specs import TrainSpec, product
    from probekit.sweeps import fit, sweep
    from probekit.train.trained import TrainedHead

__version__ = "0.1.0"

_HOMES = {
    "DECODERS": "probekit.decoders",
    "ExtractOptions": "probekit.extraction",
    "HEADS": "probekit.heads",
    "Location": "probekit.features",
    "PROTOCOLS": "probekit.protocols",
    "Record": "probekit.results",
    "TrainSpec": "probekit.specs",
    "TrainedHead": "probekit.train.trained",
    "choose_run": "probekit.comparison",
    "compare": "probekit.comparison",
    "extract": "probekit.extraction",
    "fit": "probekit.sweeps",
    "load_records": "probekit.results",
    "open_features": "probekit.features",
    "plot_attention": "probekit.plots",
    "plot_classes": "probekit.plots",
    "plot_confusion": "probekit.plots",
    "plot_depth": "probekit.plots",
    "plot_fewshot": "probekit.plots",
    "plot_fraction": "probekit.plots",
    "plot_learning": "probekit.plots",
    "plot_weights": "probekit.plots",
    "predict": "probekit.prediction",
    "product": "probekit.specs",
    "run_baselines": "probekit.baselines",
    "save_figure": "probekit.plots",
    "sweep": "probekit.sweeps",
}

__all__ = [
    "DECODERS",
    "HEADS",
    "PROTOCOLS",
    "ExtractOptions",
    "Location",
    "Record",
    "TrainSpec",
    "TrainedHead",
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


def __getattr__(name: str) -> Any:
    """Load a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'probekit' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
