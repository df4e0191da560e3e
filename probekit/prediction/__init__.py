"""Prediction: a saved head labels new text."""

from probekit.prediction.items import Item, read_items, read_sentences
from probekit.prediction.run import predict

__all__ = ["Item", "predict", "read_items", "read_sentences"]
