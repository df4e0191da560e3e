"""What holds for every decoder in DECODERS."""

import json
import math
from pathlib import Path

import pytest
import torch

from probekit.errors import OptionError, UnknownNameError
from probekit.probe.decoders import (
    DECODERS,
    UNSEEN_LOSS,
    Decoder,
    DecoderSpec,
    Vocabulary,
    check_decoder,
    decoder_from_json,
)
from probekit.probe.decoders.contract import Classifier
from tests.probe.decoders.cases import (
    OFFSETS,
    ROWS,
    SPECS,
    WIDTH,
    build,
    generator,
    ignored,
    rows,
    takes_values,
    targets,
)

KINDS = {"tagging", "sentence", "pair", "regression", "language-modelling"}


@pytest.fixture(params=SPECS.values(), ids=SPECS.keys())
def spec(request: pytest.FixtureRequest) -> DecoderSpec:
    return request.param


@pytest.fixture
def decoder(spec: DecoderSpec, backbone: Path) -> Decoder:
    return build(spec, backbone).eval()


def test_describes_itself(spec: DecoderSpec) -> None:
    assert DECODERS[spec.name] is type(spec)
    assert spec.source and spec.summary
    assert spec.kinds and spec.kinds <= KINDS


def test_json_round_trip(spec: DecoderSpec, backbone: Path) -> None:
    bound = spec.bind(backbone)
    assert bound == spec and type(bound) is type(spec)
    assert decoder_from_json(json.loads(json.dumps(bound.to_json()))) == spec
    with pytest.raises(OptionError, match="colour"):
        decoder_from_json(spec.to_json() | {"colour": 1})


def test_every_parameter_is_in_one_of_the_groups_that_the_spec_names(
    spec: DecoderSpec, decoder: Decoder
) -> None:
    groups = decoder.parameter_groups()
    assert set(groups) == {"weights", *spec.group_rates}
    found = [id(parameter) for group in groups.values() for parameter in group]
    assert sorted(found) == sorted(id(parameter) for parameter in decoder.parameters())


def test_shapes(decoder: Decoder) -> None:
    logits = decoder(rows())
    assert decoder.width == WIDTH
    assert logits.shape == (ROWS, decoder.n_classes)
    assert decoder.loss(logits, targets(decoder), OFFSETS).shape == ()
    assert decoder.row_losses(logits, targets(decoder), OFFSETS).shape == (ROWS,)
    predicted = decoder.predict(logits, OFFSETS)
    assert predicted.shape == (ROWS,)
    if takes_values(decoder):
        assert predicted.dtype == torch.float32
    else:
        assert predicted.dtype == torch.int64
        assert predicted.min() >= 0 and predicted.max() < decoder.n_classes


def test_affine_is_the_map_to_logits(decoder: Decoder) -> None:
    if decoder.affine is not None:
        weight, bias = decoder.affine
        torch.testing.assert_close(decoder(rows()), rows() @ weight.T + bias)


def test_state_dict_round_trip(spec: DecoderSpec, backbone: Path) -> None:
    decoder, other = build(spec, backbone).eval(), build(spec, backbone, seed=1).eval()
    drawn = not isinstance(spec, Vocabulary) or spec.transform == "new"
    assert drawn != torch.equal(decoder(rows()), other(rows()))
    other.load_state_dict(decoder.state_dict())
    assert torch.equal(decoder(rows()), other(rows()))


def test_randomness_comes_from_the_generator_alone(spec: DecoderSpec, backbone: Path) -> None:
    before = torch.get_rng_state()
    first, second = (build(spec, backbone, seed=3).train() for _ in range(2))
    a, b = (d(rows(), generator(5)) for d in (first, second))
    assert torch.equal(a, b)
    assert torch.equal(torch.get_rng_state(), before)


def test_evaluation_draws_nothing(decoder: Decoder) -> None:
    stream = generator()
    state = stream.get_state()
    assert torch.equal(decoder(rows(), stream), decoder(rows()))
    assert torch.equal(stream.get_state(), state)


def test_loss_is_the_mean_of_the_rows_that_count(decoder: Decoder) -> None:
    logits, gold = decoder(rows()), targets(decoder)
    gold[:3] = gold[5] = ignored(decoder)
    losses = decoder.row_losses(logits, gold, OFFSETS)
    assert (losses >= 0).all() and (losses[:3] == 0).all()
    torch.testing.assert_close(decoder.loss(logits, gold, OFFSETS), losses.sum() / (ROWS - 4))


def test_ignored_rows_do_not_count(decoder: Decoder) -> None:
    logits, gold = decoder(rows()), targets(decoder)
    gold[12:] = ignored(decoder)
    kept = decoder.loss(logits[:12], gold[:12], OFFSETS[:4])
    torch.testing.assert_close(decoder.loss(logits, gold, OFFSETS), kept)


def test_a_batch_without_targets_has_loss_zero(decoder: Decoder) -> None:
    h = rows().requires_grad_()
    none = torch.full_like(targets(decoder), ignored(decoder))
    loss = decoder.loss(decoder(h), none, OFFSETS)
    loss.backward()
    assert loss == 0
    assert all(p.grad is None or (p.grad == 0).all() for p in [h, *decoder.parameters()])


def test_no_rows_at_all(decoder: Decoder) -> None:
    logits, offsets = decoder(rows()[:0].requires_grad_()), torch.tensor([0, 0])
    assert decoder.predict(logits, offsets).shape == (0,)
    assert decoder.row_losses(logits, targets(decoder)[:0], offsets).shape == (0,)
    loss = decoder.loss(logits, targets(decoder)[:0], offsets)
    loss.backward()
    assert loss == 0


def test_without_offsets_all_rows_are_one_example(decoder: Decoder) -> None:
    logits, one = decoder(rows()), torch.tensor([0, ROWS])
    assert torch.equal(decoder.predict(logits), decoder.predict(logits, one))
    gold = targets(decoder)
    assert torch.equal(decoder.row_losses(logits, gold), decoder.row_losses(logits, gold, one))


def test_a_class_unseen_in_train_costs_a_fixed_loss(decoder: Decoder) -> None:
    logits, gold = decoder(rows()), targets(decoder)
    if takes_values(decoder):
        return
    gold[7] = ignored(decoder)
    before = decoder.row_losses(logits, gold, OFFSETS).sum()
    gold[7] = decoder.n_classes + 2
    after = decoder.row_losses(logits, gold, OFFSETS).sum()
    assert math.log(1e12) == pytest.approx(UNSEEN_LOSS)
    torch.testing.assert_close(after - before, torch.tensor(UNSEEN_LOSS))


def test_gradient_reaches_every_parameter(spec: DecoderSpec, backbone: Path) -> None:
    decoder = build(spec, backbone).train()
    h = rows().requires_grad_()
    decoder.loss(decoder(h, generator()), targets(decoder), OFFSETS).backward()
    for name, tensor in [("h", h), *decoder.named_parameters()]:
        assert tensor.grad is not None and tensor.grad.abs().max() > 0, name


def test_autocast_gives_float32_logits(decoder: Decoder) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = decoder(rows())
        loss = decoder.loss(logits, targets(decoder), OFFSETS)
    assert (logits.dtype, loss.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(logits, decoder(rows()), rtol=0.05, atol=0.05)


def test_double_precision(decoder: Decoder) -> None:
    logits = decoder.double()(rows().double())
    assert logits.dtype == torch.float64
    gold = targets(decoder)
    assert decoder.loss(logits, gold, OFFSETS).dtype == torch.float64


def test_a_signal_is_learnt(spec: DecoderSpec, backbone: Path) -> None:
    """Targets that are a function of h are fitted far better than at the start."""
    decoder = build(spec, backbone).eval()
    h = rows()
    gold = 3 + 2 * h[:, 0] if takes_values(decoder) else (h[:, 0] > 0).long()
    decoder.fit_targets(gold)
    parameters = list(decoder.parameters())
    if not parameters:
        return
    optimizer = torch.optim.AdamW(parameters, lr=2e-2)
    first = decoder.loss(decoder(h), gold, OFFSETS).item()
    for _ in range(200):
        optimizer.zero_grad()
        decoder.loss(decoder(h), gold, OFFSETS).backward()
        optimizer.step()
    assert decoder.loss(decoder(h), gold, OFFSETS).item() < first / 3


def test_unknown_decoder() -> None:
    with pytest.raises(UnknownNameError, match="linear"):
        decoder_from_json({"name": "linaer"})
    with pytest.raises(UnknownNameError, match="linear"):
        check_decoder("linaer", "tagging")


def test_a_decoder_must_fit_the_labels() -> None:
    for name, make in DECODERS.items():
        for kind in KINDS & make.kinds:
            check_decoder(name, kind)
        for kind in KINDS - make.kinds:
            with pytest.raises(OptionError, match=f"{name!r} does not fit {kind} labels; choose"):
                check_decoder(name, kind)
    with pytest.raises(OptionError, match="choose linear, mlp, pooler"):
        check_decoder("crf", "pair")


def test_probabilities_sum_to_one_and_the_largest_is_predicted(decoder: Decoder) -> None:
    """Save of a chain, whose best path may leave the most probable tags; numbers have none."""
    with torch.no_grad():
        logits = decoder(rows())
        found = decoder.log_probabilities(logits, OFFSETS)
        if takes_values(decoder):
            assert found is None
            return
        assert found.dtype == torch.float64 and found.shape == logits.shape
        torch.testing.assert_close(found.exp().sum(1), torch.ones(ROWS).double())
        if isinstance(decoder, Classifier):
            assert torch.equal(found.argmax(1), decoder.predict(logits))
            gold = targets(decoder)
            own = found.gather(1, gold.unsqueeze(1)).squeeze(1)
            torch.testing.assert_close(-own.float(), decoder.row_losses(logits, gold))
