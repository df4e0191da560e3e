"""Fusion heads: frozen features of several layers in, one vector per row out.

To add a head to probekit, write one file with a `HeadSpec` and its `FusionHead`, and one line in
``_OWN``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from probekit.base.plugins import Registry
from probekit.base.registry import LazyRegistry, revive
from probekit.probe.token_heads import token_head_from_json

if TYPE_CHECKING:
    from probekit.probe.heads.contract import HeadSpec
    from probekit.probe.heads.module_head import ModuleFactory

_OWN: "Mapping[str, type[HeadSpec]]" = LazyRegistry(
    {
        "last": f"{__name__}.sums:Last",
        "mean": f"{__name__}.sums:Mean",
        "p32": f"{__name__}.sums:P32",
        "scalar-mix": f"{__name__}.sums:ScalarMix",
        "attention-fusion": f"{__name__}.sums:AttentionFusion",
        "concat": f"{__name__}.concat:Concat",
        "concat-ffn": f"{__name__}.concat:ConcatFFN",
        "dwatt": f"{__name__}.dwatt:DWAtt",
        "extra-layers": f"{__name__}.extra_layers:ExtraLayers",
        "depth-lstm": f"{__name__}.depth_lstm:DepthLSTM",
        "laya": f"{__name__}.laya:LAYA",
    }
)

HEADS: "Registry[type[HeadSpec]]" = Registry(
    "head",
    _OWN,
    admit="probekit.testing.head_checks:admit_head",
    # baselines, which stand in place of a head in records
    reserved=("majority", "memorised", "all labels"),
    contracts=(f"{__name__}.contract:HeadSpec", "torch.nn:Module"),
)
"""In the order of tables and legends, which read the names alone: torch is not loaded for them."""


def register_head(
    name: str, head: "type[HeadSpec] | ModuleFactory", *, version: str | None = None
) -> None:
    """Add a head of your own, for this process and its workers.

    Args:
        name: as ``--head`` and `TrainSpec` take it.
        head: a `HeadSpec` of this name; or the class of any ``torch.nn.Module`` from
            (rows, layers, dim) to (rows, width), or a function that makes one. Of ``n_layers`` and
            ``dim`` it is given what it names; numbers and texts with defaults are options.
        version: what tells it from an earlier one in the keys of records; None is its source.

    Raises:
        PluginError: the name is taken, or the head breaks its contract.
    """
    HEADS.register(name, head, version=version)


def head_from_json(value: Mapping[str, Any]) -> "HeadSpec":
    """Return the head that ``HeadSpec.to_json`` described.

    Raises:
        UnknownNameError: no head has this name.
        OptionError: a hyper-parameter that the head does not have, or a value it refuses.
    """
    if (token_head := value.get("token_head")) is None:
        return revive("head", value, HEADS)
    from probekit.probe.heads.over_tokens import OverTokens  # which loads torch

    own = {name: of for name, of in value.items() if name != "token_head"}
    return OverTokens(head=revive("head", own, HEADS), token_head=token_head_from_json(token_head))
