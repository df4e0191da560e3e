"""The only code that knows a model: find it, identify it, load it, run it layer by layer.

Names load on first use, so that what needs no model (`remembered`) does not import transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probekit.backbone.again import load_again as load_again
    from probekit.backbone.config import plain_config as plain_config
    from probekit.backbone.demo_model import demo_model_folder as demo_model_folder
    from probekit.backbone.facts import Inspection as Inspection
    from probekit.backbone.facts import inspect_backbone as inspect_backbone
    from probekit.backbone.info import BackboneInfo as BackboneInfo
    from probekit.backbone.model import Backbone as Backbone
    from probekit.backbone.model import load_backbone as load_backbone
    from probekit.backbone.reading import encode as encode
    from probekit.backbone.rows import add_rows as add_rows
    from probekit.backbone.rows import read_arrays as read_arrays
    from probekit.backbone.rows import read_rows as read_rows

_HOMES = {
    "Backbone": "model",
    "BackboneInfo": "info",
    "Inspection": "facts",
    "add_rows": "rows",
    "demo_model_folder": "demo_model",
    "encode": "reading",
    "inspect_backbone": "facts",
    "load_again": "again",
    "load_backbone": "model",
    "plain_config": "config",
    "read_arrays": "rows",
    "read_rows": "rows",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
