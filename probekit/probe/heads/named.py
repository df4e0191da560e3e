"""Heads by name: the one line that a new head has outside its own file."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from probekit.base.registry import LazyRegistry, revive

if TYPE_CHECKING:
    from probekit.probe.heads.contract import HeadSpec

_HERE = "probekit.probe.heads"

HEADS: "Mapping[str, type[HeadSpec]]" = LazyRegistry(
    {
        "last": f"{_HERE}.last:Last",
        "mean": f"{_HERE}.mean:Mean",
        "p32": f"{_HERE}.p32:P32",
        "scalar-mix": f"{_HERE}.scalar_mix:ScalarMix",
        "attention-fusion": f"{_HERE}.attention_fusion:AttentionFusion",
        "concat": f"{_HERE}.concat:Concat",
        "concat-ffn": f"{_HERE}.concat_ffn:ConcatFFN",
        "dwatt": f"{_HERE}.dwatt:DWAtt",
        "extra-layers": f"{_HERE}.extra_layers:ExtraLayers",
        "depth-lstm": f"{_HERE}.depth_lstm:DepthLSTM",
        "laya": f"{_HERE}.laya:LAYA",
    }
)
"""In the order of tables and legends, which read the names alone: torch is not loaded for them."""


def head_from_json(value: Mapping[str, Any]) -> "HeadSpec":
    """Return the head that ``HeadSpec.to_json`` described.

    Raises:
        UnknownNameError: no head has this name.
        OptionError: a hyper-parameter that the head does not have, or a value it refuses.
    """
    return revive("head", value, HEADS)
