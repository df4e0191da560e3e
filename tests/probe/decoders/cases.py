"""What the contract tests need to know of each decoder: a spec that can be built, and targets."""

from functools import partial
from pathlib import Path

import torch

from probekit.probe.decoders import CRF, DECODERS, Decoder, DecoderSpec, Vocabulary
from probekit.probe.model_parts import OutputHead
from probekit.testing.decoder_checks import CLASSES, WIDTH
from probekit.testing.promises import seeded_generator as generator

SPECS: dict[str, DecoderSpec] = {name: make() for name, make in DECODERS.items()} | {
    "crf with hidden layers": CRF(hidden=5),
    "vocabulary, trained": Vocabulary(trained=True),
    "vocabulary, new transform": Vocabulary(transform="new"),
    "vocabulary, no transform": Vocabulary(transform="none"),
}


def output_head(kind: str = "masked", vocabulary: int = 11, dim: int = WIDTH) -> OutputHead:
    """A drawn output head; a masked one has a transform."""
    draw = partial(torch.randn, generator=generator(9))
    parts = {"weight": draw(vocabulary, dim)}
    if kind != "masked":
        return OutputHead(kind=kind, **parts)
    parts |= {"bias": draw(vocabulary), "dense_weight": draw(dim, dim), "dense_bias": draw(dim)}
    parts |= {"norm_weight": 1 + draw(dim) / 10, "norm_bias": draw(dim)}
    return OutputHead(kind=kind, activation="gelu", eps=1e-5, **parts)


def build(spec: DecoderSpec, backbone: Path, seed: int = 0) -> Decoder:
    """A fresh decoder, in training mode."""
    return spec.bind(backbone).build(WIDTH, CLASSES, generator(seed))
