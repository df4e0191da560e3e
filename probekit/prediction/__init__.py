"""Prediction: a saved head labels new text."""

from probekit.prediction.given import file_items, line_items
from probekit.prediction.items import Item, read_items, read_sentences
from probekit.prediction.run import predict

__all__ = ["Item", "file_items", "line_items", "predict", "read_items", "read_sentences"]
