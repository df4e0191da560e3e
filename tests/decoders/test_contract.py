"""What holds for every decoder in DECODERS."""

import json

import pytest
import torch
from torch import Tensor

from probekit.decoders import DECODERS, IGNORED, Decoder, DecoderSpec, decoder_from_json
from probekit.errors import OptionError, UnknownNameError

ROWS, WIDTH, CLASSES = 20, 7, 4
OFFSETS = torch.tensor([0, 3, 3, 12, 20])


@pytest.fixture(params=DECODERS.values(), ids=DECODERS.keys())
def spec(request: pytest.FixtureRequest) -> DecoderSpec:
    return request.param()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(spec: DecoderSpec, seed: int = 0) -> Decoder:
    return spec.build(WIDTH, CLASSES, generator(seed))


def rows() -> Tensor:
    return torch.randn(ROWS, WIDTH, generator=generator(1))


def targets() -> Tensor:
    return torch.randint(0, CLASSES, (ROWS,), generator=generator(2))


def test_describes_itself(spec: DecoderSpec) -> None:
    assert DECODERS[spec.name] is type(spec)
    assert spec.source and spec.summary


def test_json_round_trip(spec: DecoderSpec) -> None:
    assert decoder_from_json(json.loads(json.dumps(spec.to_json()))) == spec
    with pytest.raises(OptionError, match="colour"):
        decoder_from_json(spec.to_json() | {"colour": 1})


def test_shapes(spec: DecoderSpec) -> None:
    decoder = build(spec).eval()
    logits = decoder(rows())
    assert (decoder.width, decoder.n_classes) == (WIDTH, CLASSES)
    assert logits.shape == (ROWS, CLASSES)
    assert decoder.loss(logits, targets(), OFFSETS).shape == ()
    predicted = decoder.predict(logits, OFFSETS)
    assert predicted.shape == (ROWS,) and predicted.dtype == torch.int64
    assert predicted.min() >= 0 and predicted.max() < CLASSES


def test_state_dict_round_trip(spec: DecoderSpec) -> None:
    decoder, other = build(spec).eval(), build(spec, seed=1).eval()
    assert not torch.equal(decoder(rows()), other(rows()))
    other.load_state_dict(decoder.state_dict())
    assert torch.equal(decoder(rows()), other(rows()))


def test_randomness_comes_from_the_generator_alone(spec: DecoderSpec) -> None:
    before = torch.get_rng_state()
    first, second = build(spec, seed=3).train(), build(spec, seed=3).train()
    a, b = (d(rows(), generator(5)) for d in (first, second))
    assert torch.equal(a, b)
    assert torch.equal(torch.get_rng_state(), before)


def test_evaluation_draws_nothing(spec: DecoderSpec) -> None:
    decoder, stream = build(spec).eval(), generator()
    state = stream.get_state()
    assert torch.equal(decoder(rows(), stream), decoder(rows()))
    assert torch.equal(stream.get_state(), state)


def test_ignored_rows_do_not_count(spec: DecoderSpec) -> None:
    decoder = build(spec).eval()
    logits, gold = decoder(rows()), targets()
    gold[12:] = IGNORED
    kept = decoder.loss(logits[:12], gold[:12], OFFSETS[:4])
    torch.testing.assert_close(decoder.loss(logits, gold, OFFSETS), kept)


def test_a_batch_without_targets_has_loss_zero(spec: DecoderSpec) -> None:
    decoder = build(spec).eval()
    loss = decoder.loss(decoder(rows()), torch.full((ROWS,), IGNORED), OFFSETS)
    loss.backward()
    assert loss == 0
    assert all(p.grad is None or (p.grad == 0).all() for p in decoder.parameters())


def test_gradient_reaches_every_parameter(spec: DecoderSpec) -> None:
    decoder = build(spec).train()
    decoder.loss(decoder(rows(), generator()), targets(), OFFSETS).backward()
    for name, parameter in decoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def test_autocast_gives_float32_logits(spec: DecoderSpec) -> None:
    decoder = build(spec).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = decoder(rows())
        loss = decoder.loss(logits, targets(), OFFSETS)
    assert (logits.dtype, loss.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(logits, decoder(rows()), rtol=0.05, atol=0.05)


def test_unknown_decoder() -> None:
    with pytest.raises(UnknownNameError, match="linear"):
        decoder_from_json({"name": "linaer"})
