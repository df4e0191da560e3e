"""What holds for every decoder in DECODERS: the exported contract, and a little more."""

from pathlib import Path

import pytest
import torch

from probekit.errors import OptionError, UnknownNameError
from probekit.probe.decoders import (
    DECODERS,
    DecoderSpec,
    Vocabulary,
    check_decodes,
    decoder_from_json,
)
from probekit.testing.decoder_checks import DECODER_CHECKS, sample_rows
from tests.probe.decoders.cases import SPECS, build

KINDS = {"tagging", "sentence", "pair", "regression", "language-modelling"}


@pytest.fixture(params=SPECS.values(), ids=SPECS.keys())
def spec(request: pytest.FixtureRequest) -> DecoderSpec:
    return request.param


@pytest.mark.parametrize("check", DECODER_CHECKS, ids=lambda check: check.__name__)
def test_contract(spec: DecoderSpec, backbone: Path, check) -> None:
    check(spec.bind(backbone))


def test_binding_changes_nothing_but_what_is_read(spec: DecoderSpec, backbone: Path) -> None:
    bound = spec.bind(backbone)
    assert bound == spec and type(bound) is type(spec)


def test_the_seed_decides_what_is_drawn(spec: DecoderSpec, backbone: Path) -> None:
    decoder, other = build(spec, backbone).eval(), build(spec, backbone, seed=1).eval()
    drawn = not isinstance(spec, Vocabulary) or spec.transform == "new"
    assert drawn != torch.equal(decoder(sample_rows()), other(sample_rows()))


def test_unknown_decoder() -> None:
    with pytest.raises(UnknownNameError, match="linear"):
        decoder_from_json({"name": "linaer"})
    with pytest.raises(UnknownNameError, match="linear"):
        check_decodes("linaer", "tagging")


def test_a_decoder_must_fit_the_labels() -> None:
    for name, make in DECODERS.items():
        for kind in KINDS & make.kinds:
            check_decodes(name, kind)
        for kind in KINDS - make.kinds:
            with pytest.raises(OptionError, match=f"{name!r} does not fit {kind} labels; choose"):
                check_decodes(name, kind)
    with pytest.raises(OptionError, match="choose linear, mlp, pooler"):
        check_decodes("crf", "pair")
