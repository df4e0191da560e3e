"""The only code that knows a model: find it, identify it, load it, run it layer by layer."""

from probekit.backbone.again import load_again
from probekit.backbone.demo_model import demo_model_folder
from probekit.backbone.facts import Inspection, inspect_backbone
from probekit.backbone.final_norm import FinalNorm
from probekit.backbone.info import BackboneInfo
from probekit.backbone.model import Backbone, load_backbone
from probekit.backbone.rows import add_rows, word_rows

__all__ = [
    "Backbone",
    "BackboneInfo",
    "FinalNorm",
    "Inspection",
    "add_rows",
    "demo_model_folder",
    "inspect_backbone",
    "load_again",
    "load_backbone",
    "word_rows",
]
