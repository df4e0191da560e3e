"""Steps of Adam and AdamW against torch's own classes."""

import pytest
import torch
from torch.optim.lr_scheduler import ConstantLR, LinearLR, SequentialLR

from probekit.base.numbers.seeding import torch_generator
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.option_groups import Descent
from probekit.train.probe import Probe
from probekit.train.steps import Optimizer

MIXING = 1e-2
RATES = {"lr": 3e-2, "rates": (("mixing", MIXING),), "weight_decay": 0.1}
LAYERS, DIM, CLASSES = (1, 2), 4, 3


def probe_of() -> Probe:
    head = HEADS["p32"]().build(LAYERS, DIM, torch_generator(0, "head"))
    decoder = DECODERS["linear"]().build(DIM, CLASSES, torch_generator(0, "decoder"))
    return Probe(head, decoder)


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


@pytest.mark.parametrize("schedule", ["linear", "constant"])
@pytest.mark.parametrize("warmup", [0.0, 0.25, 0.5])
def test_rates_rise_and_fall_as_those_of_torch_s_schedulers(schedule, warmup):
    descent = Descent(lr=3e-2, schedule=schedule, warmup=warmup)
    steps, rising = 20, round(20 * warmup)
    other = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=3e-2)
    tiny = 1e-30  # torch's line does not begin at 0 itself
    parts = [LinearLR(other, start_factor=tiny, total_iters=rising)] if rising else []
    falling = {"start_factor": 1.0, "end_factor": 0.0, "total_iters": steps - rising}
    after = LinearLR(other, **falling) if schedule == "linear" else ConstantLR(other, factor=1.0)
    scheduler = SequentialLR(other, [*parts, after], milestones=[rising][: len(parts)])
    for step in range(steps):
        share = descent.share(1 - step / steps)
        assert 3e-2 * share == pytest.approx(other.param_groups[0]["lr"], abs=1e-12)
        other.step()
        scheduler.step()


def test_a_warm_up_reaches_the_steps():
    """Half of six steps rise: the first one is at rate 0, the others as torch takes them."""
    descent = Descent(optimizer="adam", lr=3e-2, warmup=0.5)
    ours, theirs = probe_of(), probe_of()
    mine, other = Optimizer([ours], descent), torch.optim.Adam(theirs.parameters(), fused=True)
    generator = torch_generator(0, "gradients")
    for step, share in enumerate([0, 1 / 3, 2 / 3, 1, 2 / 3, 1 / 3]):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        other.param_groups[0]["lr"] = 3e-2 * share
        other.step()
        mine.step(remaining=1 - step / 6)
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_there_may_be_nothing_to_train():
    probe = probe_of().requires_grad_(False)
    mine = Optimizer([probe], descent_of("adamw"))
    assert mine.idle
    mine.step(remaining=1.0)
