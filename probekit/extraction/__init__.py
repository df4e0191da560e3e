"""Extraction: run a frozen backbone once and write every layer's rows to the cache."""

from probekit.extraction.dry_run import Forecast, break_even, forecast, training_split
from probekit.extraction.options import ExtractOptions
from probekit.extraction.splits import extract, open_session

__all__ = [
    "ExtractOptions",
    "Forecast",
    "break_even",
    "extract",
    "forecast",
    "open_session",
    "training_split",
]
