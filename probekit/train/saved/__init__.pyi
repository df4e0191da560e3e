from .given import file_items, line_items
from .items import Item, read_items, read_sentences
from .predict import predict

__all__ = ["Item", "file_items", "line_items", "predict", "read_items", "read_sentences"]
