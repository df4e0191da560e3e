"""Extraction: run a frozen backbone once and write every layer's rows to the cache."""

from probekit.extract.extract import extract
from probekit.extract.options import ExtractOptions

__all__ = ["ExtractOptions", "extract"]
