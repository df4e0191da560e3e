"""Linear probes that step together against probes that step alone, and against autograd."""

import time

import pytest
import torch
from torch.nn import functional

from probekit.probe.normalization import normalization_from_json
from probekit.train.member import Member
from probekit.train.source import Source
from probekit.train.steps import (
    LinearProbes,
    OwnSteps,
    is_linear_probe,
    losses_and_gradients,
    steps_of,
)
from tests.planted import DIM, LAYERS
from tests.train import grouped
from tests.train.grouped import splits_in, stream


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return splits_in(tmp_path_factory.mktemp("cache"), sentences=50)


def spec(head="last", layers=(3,), decoder="linear", **options):
    return grouped.member(head, decoder, layers, **{"lr": 2e-2} | options)


def fit(splits, *members, **options):
    return grouped.fit(splits, stream(splits, *members, **{"epochs": 4} | options))[0]


def each_depth(**options):
    return [spec(layers=(n,), **options) for n in LAYERS]


def built(splits, one):
    view = splits.view("train", valid_only=True)
    none = normalization_from_json({"name": "none"}, one.layers, DIM)
    return Member(one, none, seed=0, train=view, device=torch.device("cpu"))


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
    together = fit(splits, *members)
    monkeypatch.setattr("probekit.train.steps.is_linear_probe", lambda member: False)
    alone = fit(splits, *members)
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
    results = fit(splits, *each_depth())
    elapsed = time.perf_counter() - start
    (seconds,) = {result.train_seconds for result in results}
    assert 0 < 0.02 * len(steps) <= len(results) * seconds < elapsed
