"""Steps of Adam and AdamW against torch's own classes, and against a loop written with them."""

import numpy as np
import pytest
import torch

from probekit.base.numbers import torch_generator
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.member import Probe
from probekit.train.option_groups import Descent
from probekit.train.steps import Optimizer
from probekit.train.stream import batches
from tests.planted import DIM, NAMES
from tests.train.grouped import fit, member, splits_in, stream

MIXING = 1e-2
RATES = {"lr": 3e-2, "rates": (("mixing", MIXING),), "weight_decay": 0.1}


def probe_of() -> Probe:
    head = HEADS["p32"]().build((1, 2), 4, torch_generator(0, "head"))
    return Probe(head, DECODERS["linear"]().build(4, 3, torch_generator(0, "decoder")))


def descent_of(optimizer: str) -> Descent:
    decay = None if optimizer == "adam" else RATES["weight_decay"]
    return Descent(**RATES | {"optimizer": optimizer, "weight_decay": decay})


def reference(probe: Probe, optimizer: str) -> torch.optim.Optimizer:
    mixing = list(probe.head.parameter_groups()["mixing"])
    own = {id(value) for value in mixing}
    others = [value for value in probe.parameters() if id(value) not in own]
    groups = [{"params": others, "lr": RATES["lr"]}, {"params": mixing, "lr": MIXING}]
    if optimizer == "adam":
        return torch.optim.Adam(groups, fused=True)
    return torch.optim.AdamW(groups, weight_decay=RATES["weight_decay"], fused=True)


@pytest.mark.parametrize("optimizer", ["adamw", "adam"])
def test_steps_are_torch_s_own_even_where_a_gradient_is_missing_at_times(optimizer):
    ours, theirs = probe_of(), probe_of()
    mine, other = Optimizer([ours], descent_of(optimizer)), reference(theirs, optimizer)
    peaks = [group["lr"] for group in other.param_groups]
    generator = torch_generator(0, "gradients")
    for step in range(8):
        for number, (a, b) in enumerate(zip(ours.parameters(), theirs.parameters(), strict=True)):
            drawn = torch.randn(a.shape, generator=generator)
            missing = (step + number) % 3 == 0
            a.grad, b.grad = (None, None) if missing else (drawn, drawn.clone())
        for group, peak in zip(other.param_groups, peaks, strict=True):
            group["lr"] = peak * (1 - step / 8)
        other.step()
        mine.step(remaining=1 - step / 8)
        assert all(value.grad is None for value in ours.parameters())
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)


def test_there_may_be_nothing_to_train():
    mine = Optimizer([probe_of().requires_grad_(False)], descent_of("adamw"))
    assert mine.idle
    mine.step(remaining=1.0)


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return splits_in(tmp_path_factory.mktemp("cache"), sentences=45)


def fitted(splits, head="last", epochs=1, **options):
    one = member(head, "linear:dropout=0", **{"lr": 5e-2} | options)
    return fit(splits, stream(splits, one, seed=2, epochs=epochs, evals=1))[0][0]


def by_hand(splits, optimizer, schedule="linear", *, warmup=0.0, weight_decay=0.01):
    """Six steps of cross entropy over a linear layer, as any tutorial writes them."""
    view = splits.view("train", valid_only=True)
    rows = view.array.read(torch.from_numpy(view.rows), [3])[:, 0]
    targets = torch.from_numpy(view.targets)
    start = DECODERS["linear"]().build(DIM, len(NAMES), torch_generator(2, "decoder", "linear"))
    weight, bias = (value.detach().clone().requires_grad_() for value in start.parameters())
    if optimizer == "adam":
        trainer = torch.optim.Adam([weight, bias])
    else:
        trainer = torch.optim.AdamW([weight, bias], weight_decay=weight_decay)
    losses = []
    for number, step in enumerate(batches(view.lengths, seed=2, epochs=2, batch_size=16)):
        places = np.concatenate([np.arange(view.offsets[n], view.offsets[n + 1]) for n in step])
        loss = torch.nn.functional.cross_entropy(rows[places] @ weight.T + bias, targets[places])
        trainer.zero_grad()
        loss.backward()
        falling = 1.0 if schedule == "constant" else (6 - number) / (6 - 6 * warmup)
        trainer.param_groups[0]["lr"] = 5e-2 * min(falling, number / (6 * warmup) if warmup else 1)
        trainer.step()
        losses.append(float(loss.detach()))
    assert len(losses) == 6
    return weight.detach(), bias.detach(), sum(losses) / 6


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("adamw", {}),
        ("adamw", {"weight_decay": 0.5}),
        ("adamw", {"schedule": "constant"}),
        ("adam", {}),
        ("adam", {"schedule": "constant", "warmup": 0.5}),  # the first step is at rate 0
        ("adam", {"warmup": 0.5}),
    ],
)
def test_six_steps_equal_a_loop_by_hand(splits, optimizer, options):
    result = fitted(splits, optimizer=optimizer, epochs=2, **options)
    weight, bias, loss = by_hand(splits, optimizer, **options)
    torch.testing.assert_close(result.state["decoder.weight"], weight, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(result.state["decoder.bias"], bias, atol=1e-6, rtol=1e-5)
    assert result.curve == ((6, pytest.approx(loss, rel=1e-5), result.eval_score),)


def test_mixing_weights_have_a_rate_of_their_own(splits):
    slow, fast = (fitted(splits, "p32", rates=(("mixing", rate),)) for rate in (1e-9, 0.5))
    start = HEADS["p32"]().build((1, 2, 3), DIM, torch_generator(2, "head", "p32")).state_dict()
    (name,) = start
    assert float((slow.state[f"head.{name}"] - start[name]).abs().max()) < 1e-8
    assert float((fast.state[f"head.{name}"] - start[name]).abs().max()) > 0.3
