from .checkpoint import demo_model_folder
from .facts import BackboneInfo, Inspection, inspect_backbone
from .model import Backbone, load_again, load_backbone
from .states import add_rows, read_arrays

__all__ = [
    "Backbone",
    "BackboneInfo",
    "Inspection",
    "add_rows",
    "demo_model_folder",
    "inspect_backbone",
    "load_again",
    "load_backbone",
    "read_arrays",
]
