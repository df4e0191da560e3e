"""What the contract tests need to know of each decoder: a spec that can be built, and targets."""

from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from probekit.probe.decoders import CRF, DECODERS, IGNORED, Decoder, DecoderSpec, Vocabulary
from probekit.probe.model_parts.output_head import OutputHead

ROWS, WIDTH, CLASSES = 20, 7, 4
OFFSETS = torch.tensor([0, 3, 3, 12, 20])

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


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(spec: DecoderSpec, backbone: Path, seed: int = 0) -> Decoder:
    return spec.bind(backbone).build(WIDTH, CLASSES, generator(seed))


def rows() -> Tensor:
    return torch.randn(ROWS, WIDTH, generator=generator(1))


def targets(decoder: Decoder) -> Tensor:
    if takes_values(decoder):
        return torch.randn(ROWS, generator=generator(2))
    return torch.randint(0, decoder.n_classes, (ROWS,), generator=generator(2))


def ignored(decoder: Decoder) -> float:
    return float("nan") if takes_values(decoder) else IGNORED


def takes_values(decoder: Decoder) -> bool:
    return decoder.n_classes == 1
