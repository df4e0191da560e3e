"""How many values a run trains, known before it starts: what planning and memory go by."""

from functools import lru_cache
from pathlib import Path

import torch

from probekit.base.registry import parse
from probekit.features import Splits
from probekit.probe.decoders import DECODERS
from probekit.probe.decoders.linear import Linear
from probekit.probe.heads import FusionHead
from probekit.train import MemberSpec
from probekit.train.probe import count_parameters


def count_trained(member: MemberSpec, decoder: str, splits: Splits) -> int:
    """Return the trained values of a member, whose decoder is named as in its spec."""
    head = build_empty(member, splits.manifest.dim)
    backbone = splits.entries["train"].backbone
    return count_parameters(head) + count_decoder(decoder, backbone, head.width, splits.n_outputs)


def trains_linear_layer(member: MemberSpec, dim: int) -> bool:
    """Tell whether a member trains a linear layer and nothing else.

    Args:
        member: the head and its decoder.
        dim: width of the states.
    """
    if not isinstance(member.decoder, Linear):
        return False
    return member.freeze_head or count_parameters(build_empty(member, dim)) == 0


def build_empty(member: MemberSpec, dim: int) -> FusionHead:
    """Return a member's head without memory for its values."""
    with torch.device("meta"):
        return member.head.build(member.layers, dim, torch.Generator("cpu"))


@lru_cache(maxsize=256)
def count_decoder(name: str, backbone: Path, width: int, n_outputs: int) -> int:
    """Return the trained values of a decoder; it is created for that, and let go.

    Args:
        name: of the decoder, with settings.
        backbone: the ``backbone/`` folder of the train split's entry.
        width: of what it reads.
        n_outputs: numbers that it gives per row.
    """
    decoder = parse("decoder", name, DECODERS).bind(backbone)
    return count_parameters(decoder.build(width, n_outputs, torch.Generator()))
