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
from probekit.probe.decoders.contract import UNSEEN_LOSS, LabelSetDecoder
from probekit.testing.decoder_checks import (
    DECODER_CHECKS,
    FULL,
    OFFSETS,
    ROWS,
    sample_case,
    sample_rows,
)
from probekit.testing.promises import demand, demand_tensor
from tests.probe.decoders.cases import SPECS, build

KINDS = {"tagging", "sentence", "pair", "regression", "language-modelling"}


@pytest.fixture(params=SPECS.values(), ids=SPECS.keys())
def spec(request: pytest.FixtureRequest) -> DecoderSpec:
    return request.param


@pytest.mark.parametrize("check", DECODER_CHECKS, ids=lambda check: check.__name__)
def test_contract(spec: DecoderSpec, backbone: Path, check) -> None:
    check(spec.bind(backbone))


def test_takes_all_rows_as_one_example(spec: DecoderSpec, backbone: Path) -> None:
    """Without bounds of examples, all rows are one example."""
    decoder, logits, gold, _ = sample_case(spec.bind(backbone))
    bounds = torch.tensor([0, ROWS])
    alike = torch.equal(decoder.predict(logits), decoder.predict(logits, bounds))
    losses = decoder.row_losses(logits, gold), decoder.row_losses(logits, gold, bounds)
    demand(alike and torch.equal(*losses), "without bounds it gives something else")


def test_charges_unseen_classes(spec: DecoderSpec, backbone: Path) -> None:
    """A class that it does not know costs ``UNSEEN_LOSS``, -log(1e-12) nats."""
    decoder, logits, gold, none = sample_case(spec.bind(backbone))
    if decoder.n_classes > 1:
        known, unknown = gold.clone(), gold.clone()
        if isinstance(decoder, LabelSetDecoder):
            unknown = torch.cat([gold, torch.eye(ROWS, 1, dtype=torch.int8)], 1)
        else:
            known[7], unknown[7] = none, decoder.n_classes + 2
        sums = [decoder.row_losses(logits, t, OFFSETS).sum().detach() for t in (known, unknown)]
        cost = float(sums[1] - sums[0])
        demand(abs(cost - UNSEEN_LOSS) < 1e-3, f"it costs {cost:.4f} nats")


def test_keeps_its_precision(spec: DecoderSpec, backbone: Path) -> None:
    """Logits and loss are float32 or float64, also under autocast; float64 rows stay float64."""
    decoder, exact, gold, _ = sample_case(spec.bind(backbone))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = decoder(sample_rows())
        loss = decoder.loss(logits, gold, OFFSETS)
    demand_tensor("logits under autocast", logits, tuple(exact.shape), *FULL)
    demand_tensor("the loss under autocast", loss, (), *FULL)
    torch.testing.assert_close(logits, exact, rtol=0.05, atol=0.05)
    logits = decoder.double()(sample_rows().double())
    loss = decoder.loss(logits, gold, OFFSETS)
    demand(logits.dtype == loss.dtype == torch.float64, "float64 rows give another precision")


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
