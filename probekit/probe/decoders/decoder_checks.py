"""The contract of decoders as checks, and the door through which those of third parties come in."""

import json
import math
from typing import Any

import torch
from torch import Tensor

from probekit.base.contract_checks import Check, check_class, demand, refuses, run_checks
from probekit.base.kinds import KINDS
from probekit.base.registry import revive
from probekit.errors import OptionError
from probekit.probe.decoders.contract import (
    IGNORED,
    UNSEEN_LOSS,
    Classifier,
    Decoder,
    DecoderSpec,
)
from probekit.probe.parameter_groups import demand_groups

_FULL = {torch.float32, torch.float64}
ROWS, WIDTH, CLASSES = 20, 7, 4
OFFSETS = torch.tensor([0, 3, 3, 12, 20])
"""Of the sentences that the rows are of; the second one has none."""


def generator(seed: int = 0) -> torch.Generator:
    """Return a generator on the CPU."""
    return torch.Generator().manual_seed(seed)


def build(spec: DecoderSpec, seed: int = 0) -> Decoder:
    """Return a fresh decoder in evaluation mode."""
    return spec.build(WIDTH, CLASSES, generator(seed)).eval()


def sample_rows() -> Tensor:
    """Return fused rows."""
    return torch.randn(ROWS, WIDTH, generator=generator(1))


def takes_values(decoder: Decoder) -> bool:
    """Say whether a decoder predicts numbers."""
    return decoder.n_classes == 1


def sample_targets(decoder: Decoder) -> Tensor:
    """Return a target for each row."""
    if takes_values(decoder):
        return torch.randn(ROWS, generator=generator(2))
    return torch.randint(0, decoder.n_classes, (ROWS,), generator=generator(2))


def ignored(decoder: Decoder) -> int | float:
    """Return the target of a row that does not count."""
    return math.nan if takes_values(decoder) else IGNORED


def describes_itself(spec: DecoderSpec) -> None:
    """It says its name, source and summary, and which kinds of labels it decodes."""
    for what in ("name", "source", "summary"):
        text = getattr(type(spec), what)
        demand(isinstance(text, str) and bool(text), f"its {what} is {text!r}")
    odd = sorted(spec.kinds - KINDS.keys())
    demand(bool(spec.kinds), "it decodes nothing")
    demand(not odd, f"it decodes {', '.join(odd)}; kinds are {', '.join(KINDS)}")


def is_a_value(spec: DecoderSpec) -> None:
    """Its dict form is JSON, gives an equal spec, and takes no unknown option."""
    known = {spec.name: type(spec)}
    again = revive("decoder", json.loads(json.dumps(spec.to_json())), known)
    demand(again == spec, f"{spec} came back as {again}")
    odd = {**spec.to_json(), "no_such_option": 1}
    refuses(lambda: revive("decoder", odd, known), OptionError, "an unknown option")


def groups_its_parameters(spec: DecoderSpec) -> None:
    """Every parameter is in one group, and the spec names all groups but ``weights``."""
    decoder = build(spec)
    demand_groups(decoder, decoder.parameter_groups(), spec.group_rates)


def gives_what_it_promises(spec: DecoderSpec) -> None:
    """Logits, losses and predictions have one row for each row, the loss is one number."""
    decoder = build(spec)
    logits, gold = decoder(sample_rows()), sample_targets(decoder)
    losses, predicted = (
        decoder.row_losses(logits, gold, OFFSETS),
        decoder.predict(logits, OFFSETS),
    )
    demand(decoder.width == WIDTH, f"its width is {decoder.width}, and h has {WIDTH}")
    shown, expected = tuple(logits.shape), (ROWS, decoder.n_classes)
    demand(shown == expected, f"logits have shape {shown}, expected {expected}")
    for what, one in {"losses": losses, "predictions": predicted}.items():
        demand(one.shape == (ROWS,), f"{what} have shape {tuple(one.shape)}, expected ({ROWS},)")
    demand(decoder.loss(logits, gold, OFFSETS).shape == (), "the loss is no single number")
    if takes_values(decoder):
        demand(predicted.dtype in _FULL, f"numbers are in {predicted.dtype}")
    else:
        demand(predicted.dtype == torch.int64, f"classes are in {predicted.dtype}")
        low, high = int(predicted.min()), int(predicted.max())
        demand(low >= 0 and high < decoder.n_classes, f"it predicts classes {low} to {high}")


def says_its_affine_map(spec: DecoderSpec) -> None:
    """Where ``affine`` gives weight and bias, they are the map to the logits."""
    decoder, h = build(spec), sample_rows()
    if decoder.affine is not None:
        weight, bias = decoder.affine
        torch.testing.assert_close(decoder(h), h @ weight.T + bias)


def is_saved_and_loaded(spec: DecoderSpec) -> None:
    """Its state dict holds all that it learned."""
    decoder, other, h = build(spec), build(spec, seed=1), sample_rows()
    other.load_state_dict(decoder.state_dict())
    same = torch.equal(decoder(h), other(h))
    demand(same, "loaded into another one, it computes something else")


def draws_from_the_generator(spec: DecoderSpec) -> None:
    """Parameters and dropout come from the generators that it is given; evaluating, from none."""
    before, h = torch.get_rng_state(), sample_rows()
    first, second = (build(spec, seed=3).train()(h, generator(5)) for _ in range(2))
    demand(torch.equal(first, second), "equal seeds give different logits")
    untouched = torch.equal(torch.get_rng_state(), before)
    demand(untouched, "torch's global random numbers moved")
    decoder, stream = build(spec), generator()
    state = stream.get_state()
    demand(torch.equal(decoder(h, stream), decoder(h)), "evaluating, a generator changes logits")
    demand(torch.equal(stream.get_state(), state), "evaluating, it draws")


def averages_over_rows_that_count(spec: DecoderSpec) -> None:
    """The loss is the mean of row losses of 0 or more, over rows that have a target."""
    decoder = build(spec)
    logits, gold = decoder(sample_rows()), sample_targets(decoder)
    gold[:3] = gold[5] = ignored(decoder)
    losses = decoder.row_losses(logits, gold, OFFSETS)
    demand(bool((losses >= 0).all()), "a row has a loss below 0")
    demand(bool((losses[:3] == 0).all()), "a row without a target has a loss")
    torch.testing.assert_close(decoder.loss(logits, gold, OFFSETS), losses.sum() / (ROWS - 4))
    gold = sample_targets(decoder)
    gold[12:] = ignored(decoder)
    kept = decoder.loss(logits[:12], gold[:12], OFFSETS[:4])
    torch.testing.assert_close(decoder.loss(logits, gold, OFFSETS), kept)


def stands_batches_without_targets(spec: DecoderSpec) -> None:
    """Without a target, or without a row, the loss is 0, and so are gradients."""
    decoder, h = build(spec), sample_rows().requires_grad_()
    none = torch.full_like(sample_targets(decoder), ignored(decoder))
    loss = decoder.loss(decoder(h), none, OFFSETS)
    torch.autograd.backward(loss)
    gradients = [one.grad for one in (h, *decoder.parameters()) if one.grad is not None]
    demand(float(loss.detach()) == 0, f"without targets the loss is {loss:g}")
    demand(all(bool((one == 0).all()) for one in gradients), "without targets there are gradients")
    logits, offsets = decoder(sample_rows()[:0].requires_grad_()), torch.tensor([0, 0])
    nothing = sample_targets(decoder)[:0]
    for one in (decoder.predict(logits, offsets), decoder.row_losses(logits, nothing, offsets)):
        demand(one.shape == (0,), f"no rows give shape {tuple(one.shape)}")
    loss = decoder.loss(logits, nothing, offsets)
    torch.autograd.backward(loss)
    demand(float(loss.detach()) == 0, f"without rows the loss is {loss:g}")


def takes_all_rows_as_one_example(spec: DecoderSpec) -> None:
    """Without bounds all rows are one example."""
    decoder, one = build(spec), torch.tensor([0, ROWS])
    logits, gold = decoder(sample_rows()), sample_targets(decoder)
    alike = torch.equal(decoder.predict(logits), decoder.predict(logits, one))
    losses = decoder.row_losses(logits, gold), decoder.row_losses(logits, gold, one)
    demand(alike and torch.equal(*losses), "without bounds it gives something else")


def charges_unseen_classes(spec: DecoderSpec) -> None:
    """A class that it does not know costs ``UNSEEN_LOSS``, -log(1e-12) nats."""
    decoder = build(spec)
    if takes_values(decoder):
        return
    logits, gold = decoder(sample_rows()), sample_targets(decoder)
    gold[7] = ignored(decoder)
    before = decoder.row_losses(logits, gold, OFFSETS).sum()
    gold[7] = decoder.n_classes + 2
    cost = float((decoder.row_losses(logits, gold, OFFSETS).sum() - before).detach())
    demand(abs(cost - UNSEEN_LOSS) < 1e-3, f"it costs {cost:.4f} nats")


def passes_gradients(spec: DecoderSpec) -> None:
    """Gradients reach h and every parameter."""
    decoder, h = build(spec).train(), sample_rows().requires_grad_()
    torch.autograd.backward(decoder.loss(decoder(h, generator()), sample_targets(decoder), OFFSETS))
    for name, one in [("h", h), *decoder.named_parameters()]:
        reached = one.grad is not None and bool(one.grad.abs().max() > 0)
        demand(reached, f"no gradient reaches {name}")


def keeps_its_precision(spec: DecoderSpec) -> None:
    """Logits and loss are in float32 or 64, also under autocast, and in float64 of float64 rows."""
    decoder, h = build(spec), sample_rows()
    gold = sample_targets(decoder)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = decoder(h)
        loss = decoder.loss(logits, gold, OFFSETS)
    demand({logits.dtype, loss.dtype} <= _FULL, "autocast leaves logits or loss in half")
    torch.testing.assert_close(logits, decoder(h), rtol=0.05, atol=0.05)
    logits = decoder.double()(h.double())
    loss = decoder.loss(logits, gold, OFFSETS)
    demand(logits.dtype == loss.dtype == torch.float64, "float64 rows give another precision")


def learns_a_signal(spec: DecoderSpec) -> None:
    """What is a function of h is learnt: 200 steps bring its loss below a third."""
    decoder, h = build(spec), sample_rows()
    gold = 3 + 2 * h[:, 0] if takes_values(decoder) else (h[:, 0] > 0).long()
    decoder.fit_targets(gold)
    if not (parameters := list(decoder.parameters())):
        return
    optimizer = torch.optim.AdamW(parameters, lr=2e-2)
    first = decoder.loss(decoder(h), gold, OFFSETS).item()
    for _ in range(200):
        optimizer.zero_grad()
        torch.autograd.backward(decoder.loss(decoder(h), gold, OFFSETS))
        optimizer.step()
    last = decoder.loss(decoder(h), gold, OFFSETS).item()
    demand(last < first / 3, f"the loss went from {first:.3g} to {last:.3g}")


def says_how_probable_classes_are(spec: DecoderSpec) -> None:
    """Probabilities sum to 1, in float64; of a classifier they are those of loss and prediction."""
    decoder = build(spec)
    with torch.no_grad():
        logits, gold = decoder(sample_rows()), sample_targets(decoder)
        found = decoder.log_probabilities(logits, OFFSETS)
        if takes_values(decoder):
            demand(found is None, "it gives probabilities of numbers")
            return
        if found is None:
            raise AssertionError("it gives no probabilities of its classes")
        demand(found.dtype == torch.float64, f"log_probabilities are in {found.dtype}")
        demand(found.shape == logits.shape, f"they have shape {tuple(found.shape)}")
        torch.testing.assert_close(found.exp().sum(1), torch.ones(ROWS).double())
        if isinstance(decoder, Classifier):
            agreed = torch.equal(found.argmax(1), decoder.predict(logits))
            demand(agreed, "the most probable class is not predicted")
            own = found.gather(1, gold.unsqueeze(1)).squeeze(1)
            torch.testing.assert_close(-own.float(), decoder.row_losses(logits, gold))


DECODER_CHECKS: tuple[Check[DecoderSpec], ...] = (
    describes_itself, is_a_value, groups_its_parameters, gives_what_it_promises,
    says_its_affine_map, is_saved_and_loaded, draws_from_the_generator,
    averages_over_rows_that_count, stands_batches_without_targets, takes_all_rows_as_one_example,
    charges_unseen_classes, passes_gradients, keeps_its_precision, learns_a_signal,
    says_how_probable_classes_are,
)  # fmt: skip
"""What holds for every decoder, given as a bound spec."""


def check_decoder(decoder: type[DecoderSpec]) -> None:
    """Check a decoder against the contract of decoders, with its default options.

    Raises:
        PluginError: it breaks the contract; the message has the promise and what it did.
    """
    run_checks("decoder", decoder(), DECODER_CHECKS)


def admit_decoder(name: str, decoder: Any, checked: bool) -> type[DecoderSpec]:
    """Return a decoder that is added, once its contract holds.

    Raises:
        PluginError: it is no decoder, is called otherwise, or breaks the contract.
    """
    check_class(decoder, DecoderSpec, name)
    if not checked:
        check_decoder(decoder)
    return decoder
