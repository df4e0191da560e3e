"""The only code that knows a model: find it, identify it, load it, run it layer by layer."""

from probekit.backbone.again import load_again
from probekit.backbone.config import plain_config
from probekit.backbone.demo_model import demo_model_folder
from probekit.backbone.facts import Inspection, inspect_backbone
from probekit.backbone.info import BackboneInfo
from probekit.backbone.model import Backbone, load_backbone
from probekit.backbone.reading import encode
from probekit.backbone.rows import add_rows, read_arrays, read_rows

__all__ = [
    "Backbone",
    "BackboneInfo",
    "Inspection",
    "add_rows",
    "demo_model_folder",
    "encode",
    "inspect_backbone",
    "load_again",
    "load_backbone",
    "plain_config",
    "read_arrays",
    "read_rows",
]
