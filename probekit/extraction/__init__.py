"""Extraction: run a frozen backbone once and write every layer's rows to the cache."""

from probekit.extraction.options import ExtractOptions
from probekit.extraction.splits import extract

__all__ = ["ExtractOptions", "extract"]
