"""Steps of probes: alone against torch's classes and a loop by hand, together against alone."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional

from probekit.base.numbers import torch_generator
from probekit.base.tensors import Stopwatch
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.member import Probe
from probekit.train.option_groups import Descent
from probekit.train.source import Source
from probekit.train.steps import (
    LinearProbes,
    Optimizer,
    OwnSteps,
    is_linear_probe,
    losses_and_gradients,
    steps_of,
)
from probekit.train.stream import batches
from tests.planted import DIM, LAYERS, NAMES
from tests.train import grouped
from tests.train.grouped import built, fit, member, splits_in, stream

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


def spec(head="last", layers=(3,), decoder="linear", **options):
    return grouped.member(head, decoder, layers, **{"lr": 2e-2} | options)


def fit_each(splits, *members, **options):
    return grouped.fit(splits, stream(splits, *members, **{"epochs": 4} | options))[0]


def each_depth(**options):
    return [spec(layers=(n,), **options) for n in LAYERS]


@pytest.mark.parametrize("classes", [2, 9])
def test_gradients_and_losses_are_autograds(classes):
    generator = torch.Generator().manual_seed(classes)
    logits = 5 * torch.randn(3, 17, classes, generator=generator)
    targets = torch.randint(classes, (17,), generator=generator)
    targets[[0, 5, 16]] = -100
    losses, gradients = losses_and_gradients(logits.clone(), targets)
    for one, loss, gradient in zip(logits, losses, gradients, strict=True):
        leaf = one.double().requires_grad_()
        expected = functional.cross_entropy(leaf, targets)
        expected.backward()
        torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-6, atol=0)
        torch.testing.assert_close(gradient.double(), leaf.grad, rtol=1e-5, atol=1e-8)
        assert not gradient[[0, 5, 16]].any()
    losses, gradients = losses_and_gradients(logits, torch.full((17,), -100))
    taught = [*losses, *gradients]
    assert not any(value.any() for value in taught), "a batch without targets teaches nothing"


def test_what_is_found_of_a_probe_does_not_depend_on_the_others():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(31, 61, 7, generator=generator)
    targets = torch.randint(7, (61,), generator=generator)
    losses, gradients = losses_and_gradients(logits, targets)
    for place, one in enumerate(logits):
        (loss,), (gradient,) = losses_and_gradients(one[None].clone(), targets)
        assert torch.equal(loss, losses[place])
        assert torch.equal(gradient, gradients[place])
        assert gradients[place].data_ptr() % 64 == 0


def test_steps_together_are_the_steps_of_autograd(splits, monkeypatch):
    options = {"normalize": "standardize"}
    members = [*each_depth(**options), spec("p32", (1, 2, 3), freeze_head=True, **options)]
    together = fit_each(splits, *members)
    monkeypatch.setattr("probekit.train.steps.is_linear_probe", lambda member: False)
    alone = fit_each(splits, *members)
    for one, other in zip(together, alone, strict=True):
        for name, values in one.state.items():
            torch.testing.assert_close(values, other.state[name], rtol=1e-4, atol=1e-5)
        for (_, loss, _), (_, expected, _) in zip(one.curve, other.curve, strict=True):
            assert loss == pytest.approx(expected, rel=1e-4)


def test_members_step_together_that_differ_in_what_they_read_alone(splits):
    alike = [*each_depth(), spec("mean", (1, 2)), spec(layers=(3,), normalize="layernorm")]
    frozen = spec("p32", (1, 2, 3), freeze_head=True)
    others = [
        spec(lr=1e-3), spec(weight_decay=0.1), spec(optimizer="adam"), spec(schedule="constant"),
        spec(decoder="linear:dropout=0.2"),
    ]  # fmt: skip
    alone = [spec("p32", (1, 2, 3)), spec(decoder="mlp"), spec(decoder="crf")]
    found = steps_of([built(splits, one) for one in [*alike, frozen, *others, *alone]])
    assert [type(one) for one in found] == [OwnSteps] * 3 + [LinearProbes] * 6
    sizes = [len(one._probes) for one in found if isinstance(one, LinearProbes)]
    assert sizes == [len(alike) + 1, 1, 1, 1, 1, 1]
    member = built(splits, spec())
    assert is_linear_probe(member)
    member.probe.heavy = True  # whose decoder multiplies in bfloat16
    assert not is_linear_probe(member)


def test_seconds_of_reading_count_and_are_shared_out(splits, monkeypatch):
    real = Source.batches

    def slowly(source, *args, **options):
        for inputs in real(source, *args, **options):
            steps.append(len(inputs.targets))
            time.sleep(0.02)
            yield inputs

    steps = []
    monkeypatch.setattr(Source, "batches", slowly)
    start = time.perf_counter()
    results = fit_each(splits, *each_depth())
    elapsed = time.perf_counter() - start
    (seconds,) = {result.train_seconds for result in results}
    assert 0 < 0.02 * len(steps) <= len(results) * seconds < elapsed


def test_cuda_events_are_read_after_the_work(monkeypatch):
    """A stand-in for a device: its queue is at second ``clock`` when an event is recorded."""
    queue = SimpleNamespace(clock=0.0, finished=0.0)

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing
            self.done = False

        def record(self, stream):
            assert stream is queue
            self.at = queue.clock

        def query(self):
            self.done = self.done or self.at <= queue.finished
            return self.done

        def synchronize(self):
            self.done = True

        def elapsed_time(self, last):
            assert last.done
            return 1e3 * (last.at - self.at)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: queue)
    watch = Stopwatch(torch.device("cuda:0"))
    for seconds in (1.0, 2.0):
        with watch.running():
            queue.clock += seconds
        queue.clock += 10  # of others
    assert len(watch._stretches) == 2
    queue.finished = queue.clock
    with watch.running():
        queue.clock += 4.0
    assert len(watch._stretches) == 1  # what the device has done is counted and forgotten
    assert watch.seconds == watch.seconds == pytest.approx(7.0)
