"""Extraction: run a frozen backbone once and write every layer's rows to the cache."""

from probekit.extraction.dry_run import Forecast, break_even, forecast, training_split
from probekit.extraction.extract import extract, open_session
from probekit.extraction.request_options import ExtractOptions

__all__ = [
    "ExtractOptions",
    "Forecast",
    "break_even",
    "extract",
    "forecast",
    "open_session",
    "training_split",
]
