"""The contract of decoders as checks."""

import math

import torch
from torch import Tensor

from probekit.base.kinds import KINDS
from probekit.probe.decoders.contract import (
    IGNORED,
    Classifier,
    Decoder,
    DecoderSpec,
    LabelSetDecoder,
)
from probekit.testing.promises import (
    Check,
    Contract,
    demand,
    demand_gradients,
    demand_groups,
    demand_loads,
    demand_tensor,
    demand_texts,
    demand_value,
    global_numbers_untouched,
    seeded_generator,
)

FULL = (torch.float32, torch.float64)
ROWS, WIDTH, CLASSES = 20, 7, 4
OFFSETS = torch.tensor([0, 3, 3, 12, 20])
"""Of the sentences that the rows are of; the second one has none."""


def build(spec: DecoderSpec, seed: int = 0) -> Decoder:
    """Return a fresh decoder in evaluation mode."""
    return spec.build(WIDTH, CLASSES, seeded_generator(seed)).eval()


def sample_rows() -> Tensor:
    """Return fused rows."""
    return torch.randn(ROWS, WIDTH, generator=seeded_generator(1))


def sample_case(spec: DecoderSpec) -> tuple[Decoder, Tensor, Tensor, int | float]:
    """Return a decoder, its logits of rows, a target for each, and the target of none."""
    decoder, generator = build(spec), seeded_generator(2)
    logits = decoder(sample_rows())
    if isinstance(decoder, LabelSetDecoder):
        gold = torch.randint(2, (ROWS, CLASSES), generator=generator, dtype=torch.int8)
        return decoder, logits, gold, IGNORED
    if decoder.n_classes == 1:
        return decoder, logits, torch.randn(ROWS, generator=generator), math.nan
    return decoder, logits, torch.randint(decoder.n_classes, (ROWS,), generator=generator), IGNORED


def describes_itself(spec: DecoderSpec) -> None:
    """It states its name, source and summary, and the kinds of labels that it decodes."""
    demand_texts(type(spec), "name", "source", "summary")
    odd = sorted(spec.kinds - KINDS.keys())
    demand(bool(spec.kinds), "it decodes nothing")
    demand(not odd, f"it decodes {', '.join(odd)}; kinds are {', '.join(KINDS)}")
    sets = any(KINDS[kind].targets == "sets" for kind in spec.kinds)
    of_sets = isinstance(build(spec), LabelSetDecoder)
    demand(sets == of_sets, "a decoder of sets of labels, and no other, is a LabelSetDecoder")


def is_a_value(spec: DecoderSpec) -> None:
    """Its dict form is JSON and gives an equal spec back; unknown options are refused."""
    demand_value("decoder", spec)


def groups_its_parameters(spec: DecoderSpec) -> None:
    """Each parameter is in one group, and the spec names every group except ``weights``."""
    demand_groups(build(spec), spec)


def gives_what_it_promises(spec: DecoderSpec) -> None:
    """Logits, losses and predictions have one row per input row; the loss is one number."""
    decoder, logits, gold, _ = sample_case(spec)
    losses, predicted = decoder.row_losses(logits, gold, OFFSETS), decoder.predict(logits, OFFSETS)
    demand(decoder.width == WIDTH, f"its width is {decoder.width}, and h has {WIDTH}")
    demand_tensor("logits", logits, (ROWS, decoder.n_classes), *FULL)
    demand_tensor("losses", losses, (ROWS,), *FULL)
    demand_tensor("the loss", decoder.loss(logits, gold, OFFSETS), (), *FULL)
    classes = decoder.n_classes > 1 and gold.ndim == 1
    demand_tensor("predictions", predicted, gold.shape, *((torch.int64,) if classes else FULL))
    if classes:
        low, high = int(predicted.min()), int(predicted.max())
        demand(low >= 0 and high < decoder.n_classes, f"it predicts classes {low} to {high}")


def says_its_affine_map(spec: DecoderSpec) -> None:
    """If ``affine`` gives a weight and a bias, they are the map from h to the logits."""
    decoder, h = build(spec), sample_rows()
    if decoder.affine is not None:
        weight, bias = decoder.affine
        torch.testing.assert_close(decoder(h), h @ weight.T + bias)


def is_saved_and_loaded(spec: DecoderSpec) -> None:
    """Its state dict holds everything that it learned."""
    demand_loads(build(spec), build(spec, seed=1), sample_rows())


def draws_from_the_generator(spec: DecoderSpec) -> None:
    """Parameters and dropout are drawn from the given generators; evaluation draws nothing."""
    h, stream = sample_rows(), seeded_generator()
    with global_numbers_untouched():
        first, second = (build(spec, 3).train()(h, seeded_generator(5)) for _ in range(2))
    demand(torch.equal(first, second), "equal seeds give different logits")
    decoder, state = build(spec), stream.get_state()
    demand(torch.equal(decoder(h, stream), decoder(h)), "evaluating, a generator changes logits")
    demand(torch.equal(stream.get_state(), state), "evaluating, it draws")


def averages_over_rows_that_count(spec: DecoderSpec) -> None:
    """The loss is the mean over the rows with a target, and no row has a loss below 0."""
    decoder, logits, targets, none = sample_case(spec)
    gold = targets.clone()
    gold[:3] = gold[5] = none
    losses = decoder.row_losses(logits, gold, OFFSETS)
    demand(bool((losses >= 0).all()), "a row has a loss below 0")
    demand(bool((losses[:3] == 0).all()), "a row without a target has a loss")
    torch.testing.assert_close(decoder.loss(logits, gold, OFFSETS), losses.sum() / (ROWS - 4))
    targets[12:] = none
    expected = decoder.loss(logits[:12], targets[:12], OFFSETS[:4])
    torch.testing.assert_close(decoder.loss(logits, targets, OFFSETS), expected)


def stands_batches_without_targets(spec: DecoderSpec) -> None:
    """A batch without targets, or without rows, has loss 0 and no gradients."""
    decoder, _, gold, none = sample_case(spec)
    for rows, offsets in ((ROWS, OFFSETS), (0, torch.tensor([0, 0]))):
        h = sample_rows()[:rows].requires_grad_()
        logits, targets = decoder(h), torch.full_like(gold, none)[:rows]
        losses = decoder.row_losses(logits, targets, offsets)
        demand_tensor(f"losses of {rows} rows", losses, (rows,), *FULL)
        demand(len(decoder.predict(logits, offsets)) == rows, f"no prediction for {rows} rows")
        loss = decoder.loss(logits, targets, offsets)
        torch.autograd.backward(loss)
        demand(loss.item() == 0, f"without targets, of {rows} rows, the loss is {loss:g}")
        for tensor in (h, *decoder.parameters()):
            none_flows = tensor.grad is None or bool((tensor.grad == 0).all())
            demand(none_flows, f"without targets, of {rows} rows, there are gradients")


def passes_gradients(spec: DecoderSpec) -> None:
    """Gradients reach h and every parameter."""
    decoder, _, gold, _ = sample_case(spec)
    h = sample_rows().requires_grad_()
    logits = decoder.train()(h, seeded_generator())
    torch.autograd.backward(decoder.loss(logits, gold, OFFSETS))
    demand_gradients([("h", h), *decoder.named_parameters()])


def learns_a_signal(spec: DecoderSpec) -> None:
    """It learns a function of h: 200 steps bring the loss below a third."""
    decoder, h = build(spec), sample_rows()
    gold = 3 + 2 * h[:, 0] if decoder.n_classes == 1 else (h[:, 0] > 0).long()
    gold = (h[:, :CLASSES] > 0).to(torch.int8) if isinstance(decoder, LabelSetDecoder) else gold
    decoder.fit_targets(gold)
    if not (parameters := list(decoder.parameters())):
        return
    optimizer, losses = torch.optim.AdamW(parameters, lr=2e-2), []
    for _ in range(201):
        optimizer.zero_grad()
        loss = decoder.loss(decoder(h), gold, OFFSETS)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    demand(losses[-1] < losses[0] / 3, f"the loss went from {losses[0]:.3g} to {losses[-1]:.3g}")


def says_how_probable_classes_are(spec: DecoderSpec) -> None:
    """Probabilities are float64, those of classes sum to 1; they agree with loss and prediction."""
    decoder, logits, gold, _ = sample_case(spec)
    log_p = decoder.log_probabilities(logits, OFFSETS)
    if decoder.n_classes == 1:
        demand(log_p is None, "it gives probabilities of numbers")
        return
    if log_p is None:
        raise AssertionError("it gives no probabilities of its classes")
    demand_tensor("log_probabilities", log_p, tuple(logits.shape), torch.float64)
    if isinstance(decoder, LabelSetDecoder):
        likely = torch.where(gold == 1, log_p, decoder.log_probabilities(-logits))
        torch.testing.assert_close(-likely.sum(1).float(), decoder.row_losses(logits, gold))
        agreed = torch.equal(log_p.exp() > 0.5, decoder.predict(logits) > 0)
        demand(agreed, "a fresh decoder does not predict the labels that are more likely than not")
        return
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(ROWS).double())
    if isinstance(decoder, Classifier):
        agreed = torch.equal(log_p.argmax(1), decoder.predict(logits))
        demand(agreed, "the most probable class is not predicted")
        of_gold = log_p.gather(1, gold.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(-of_gold.float(), decoder.row_losses(logits, gold))


DECODER_CHECKS: tuple[Check[DecoderSpec], ...] = (
    describes_itself, is_a_value, groups_its_parameters, gives_what_it_promises,
    says_its_affine_map, is_saved_and_loaded, draws_from_the_generator,
    averages_over_rows_that_count, stands_batches_without_targets, passes_gradients,
    learns_a_signal, says_how_probable_classes_are,
)  # fmt: skip
"""What holds for every decoder, given as a bound spec."""


DECODER = Contract("decoder", DecoderSpec, DECODER_CHECKS, built=True)
check_decoder = DECODER.check
