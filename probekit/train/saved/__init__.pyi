from .items import Item, file_items, line_items, read_items, read_sentences
from .predict import predict

__all__ = ["Item", "file_items", "line_items", "predict", "read_items", "read_sentences"]
