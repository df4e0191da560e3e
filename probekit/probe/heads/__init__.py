"""Fusion heads: frozen features of several layers in, one vector per row out.

To add a head, write one file with a `HeadSpec` and its `FusionHead`, and one line in ``HEADS``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from probekit.base.registry import LazyRegistry, revive

if TYPE_CHECKING:
    from probekit.probe.heads.contract import HeadSpec

HEADS: "Mapping[str, type[HeadSpec]]" = LazyRegistry(
    {
        "last": f"{__name__}.last:Last",
        "mean": f"{__name__}.mean:Mean",
        "p32": f"{__name__}.p32:P32",
        "scalar-mix": f"{__name__}.scalar_mix:ScalarMix",
        "attention-fusion": f"{__name__}.attention_fusion:AttentionFusion",
        "concat": f"{__name__}.concat:Concat",
        "concat-ffn": f"{__name__}.concat_ffn:ConcatFFN",
        "dwatt": f"{__name__}.dwatt:DWAtt",
        "extra-layers": f"{__name__}.extra_layers:ExtraLayers",
        "depth-lstm": f"{__name__}.depth_lstm:DepthLSTM",
        "laya": f"{__name__}.laya:LAYA",
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
