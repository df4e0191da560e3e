"""Decoders: one fused vector per row in, class ids out.

To add a decoder, write one file with a `DecoderSpec` and its `Decoder`, and one line in
``DECODERS``.
"""

from collections.abc import Mapping
from typing import Any

from probekit.decoders.contract import IGNORED, Decoder, DecoderSpec
from probekit.decoders.linear import Linear
from probekit.registry import revive

DECODERS: dict[str, type[DecoderSpec]] = {
    "linear": Linear,
}


def decoder_from_json(value: Mapping[str, Any]) -> DecoderSpec:
    """Return the decoder that ``DecoderSpec.to_json`` described.

    Raises:
        UnknownNameError: no decoder has this name.
        OptionError: a hyper-parameter that the decoder does not have, or a value it refuses.
    """
    return revive("decoder", value, DECODERS)


__all__ = ["DECODERS", "IGNORED", "Decoder", "DecoderSpec", "Linear", "decoder_from_json"]
