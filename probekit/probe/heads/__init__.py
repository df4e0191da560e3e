"""Fusion heads: frozen features of several layers in, one vector per row out.

To add a head, write one file with a `HeadSpec` and its `FusionHead`, and one line in ``HEADS``.
"""

from collections.abc import Mapping
from typing import Any

from probekit.base.registry import revive
from probekit.probe.heads.attention_fusion import AttentionFusion
from probekit.probe.heads.concat import Concat
from probekit.probe.heads.concat_ffn import ConcatFFN
from probekit.probe.heads.contract import (
    BackboneFacts,
    FusionHead,
    HeadInput,
    HeadSpec,
    LayerWeights,
)
from probekit.probe.heads.depth_lstm import DepthLSTM
from probekit.probe.heads.dwatt import DWAtt
from probekit.probe.heads.extra_layers import ExtraLayers
from probekit.probe.heads.last import Last
from probekit.probe.heads.laya import LAYA
from probekit.probe.heads.mean import Mean
from probekit.probe.heads.p32 import P32
from probekit.probe.heads.scalar_mix import ScalarMix
from probekit.probe.heads.tokens import TokenStates

HEADS: dict[str, type[HeadSpec]] = {
    "last": Last,
    "mean": Mean,
    "p32": P32,
    "scalar-mix": ScalarMix,
    "attention-fusion": AttentionFusion,
    "concat": Concat,
    "concat-ffn": ConcatFFN,
    "dwatt": DWAtt,
    "extra-layers": ExtraLayers,
    "depth-lstm": DepthLSTM,
    "laya": LAYA,
}


def head_from_json(value: Mapping[str, Any]) -> HeadSpec:
    """Return the head that ``HeadSpec.to_json`` described.

    Raises:
        UnknownNameError: no head has this name.
        OptionError: a hyper-parameter that the head does not have, or a value it refuses.
    """
    return revive("head", value, HEADS)


__all__ = [
    "HEADS",
    "BackboneFacts",
    "FusionHead",
    "HeadInput",
    "HeadSpec",
    "LayerWeights",
    "TokenStates",
    "head_from_json",
]
