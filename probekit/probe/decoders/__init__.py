"""Decoders: one fused vector per row in, class ids (or numbers) out.

To add a decoder to probekit, write one file with a `DecoderSpec` and its `Decoder`, and one line in
``_OWN``.
"""

from collections.abc import Mapping
from typing import Any

from probekit.base.plugins import Registry
from probekit.base.registry import choose, revive
from probekit.errors import OptionError
from probekit.probe.decoders.contract import IGNORED, UNSEEN_LOSS, Decoder, DecoderSpec
from probekit.probe.decoders.crf import CRF
from probekit.probe.decoders.linear import MLP, Linear, OneVsRest, Pooler, Regression
from probekit.probe.decoders.vocabulary import Vocabulary

_OWN: Mapping[str, type[DecoderSpec]] = {
    "linear": Linear,
    "one-vs-rest": OneVsRest,
    "mlp": MLP,
    "crf": CRF,
    "pooler": Pooler,
    "regression": Regression,
    "vocabulary": Vocabulary,
}

DECODERS = Registry(
    "decoder",
    _OWN,
    admit="probekit.testing.decoder_checks:DECODER.admit",
    contracts=[f"{__name__}.contract:DecoderSpec"],
)


def register_decoder(name: str, decoder: type[DecoderSpec], *, version: str | None = None) -> None:
    """Add a decoder of your own, for this process and its workers.

    Args:
        name: as ``--decoder`` and `TrainSpec` take it.
        decoder: a `DecoderSpec` of this name.
        version: what tells it from an earlier one in the keys of records; None is its source.

    Raises:
        PluginError: the name is taken, or the decoder breaks its contract.
    """
    DECODERS.register(name, decoder, version=version)


def decoder_from_json(value: Mapping[str, Any]) -> DecoderSpec:
    """Return the decoder that ``DecoderSpec.to_json`` described.

    Raises:
        UnknownNameError: no decoder has this name.
        OptionError: a hyper-parameter that the decoder does not have, or a value it refuses.
    """
    return revive("decoder", value, DECODERS)


def check_decodes(name: str, kind: str) -> None:
    """Check that a decoder fits a kind of label column.

    Raises:
        UnknownNameError: no decoder has this name.
        OptionError: it does not decode that kind; the message names those that do.
    """
    if kind not in choose("decoder", name, DECODERS).kinds:
        fitting = [other for other, spec in DECODERS.items() if kind in spec.kinds]
        choice = ", ".join(fitting) or "another label"
        raise OptionError(f"decoder {name!r} does not fit {kind} labels; choose {choice}.")


__all__ = [
    "DECODERS",
    "IGNORED",
    "UNSEEN_LOSS",
    "Decoder",
    "DecoderSpec",
    "check_decodes",
    "decoder_from_json",
    "register_decoder",
]
