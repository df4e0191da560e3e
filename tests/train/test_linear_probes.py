"""Linear probes that step together against probes that step alone, and against autograd."""

import time
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from probekit.base.registry import parse
from probekit.features import Location, open_features
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.probe.normalization import normalization_from_json
from probekit.train.fit import fit_group
from probekit.train.member import Member
from probekit.train.source import Source
from probekit.train.steps import (
    LinearProbes,
    OwnSteps,
    is_linear_probe,
    losses_and_gradients,
    steps_of,
)
from tests.planted import DIM, LAYERS, MODEL, TASK, plant_all
from tests.train.grouped import member_spec, stream_spec

ACCURACY = METRICS["accuracy"]


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    root = plant_all(tmp_path_factory.mktemp("cache"), sentences=50)
    return open_features(MODEL, TASK, "ner", Location(cache=root))


def spec(head="last", layers=(3,), decoder="linear", **options):
    defaults = {"head": HEADS[head](), "decoder": parse("decoder", decoder, DECODERS)}
    return member_spec(**defaults | {"layers": layers, "lr": 2e-2} | options)


def fit(splits, *members, **options):
    defaults = {"train": splits.view("train", valid_only=True), "seed": 0, "epochs": 4}
    stream = stream_spec(**defaults | options, members=members)
    return fit_group([stream], splits.view("dev"), metric=ACCURACY)[0]


def each_depth(**options):
    return [spec(layers=(n,), **options) for n in LAYERS]


def built(splits, one):
    view = splits.view("train", valid_only=True)
    none = normalization_from_json({"name": "none"}, one.layers, DIM)
    return Member(one, none, seed=0, train=view, device=torch.device("cpu"))


@pytest.mark.parametrize("classes", [2, 5, 9])
def test_gradients_and_losses_are_autograds(classes):
    generator = torch.Generator().manual_seed(classes)
    logits = 5 * torch.randn(3, 17, classes, generator=generator)
    targets = torch.randint(classes, (17,), generator=generator)
    targets[[0, 5, 16]] = -100
    losses, gradients = losses_and_gradients(logits, targets)
    for one, loss, gradient in zip(logits, losses, gradients, strict=True):
        leaf = one.double().requires_grad_()
        expected = functional.cross_entropy(leaf, targets)
        expected.backward()
        torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-6, atol=0)
        torch.testing.assert_close(gradient.double(), leaf.grad, rtol=1e-5, atol=1e-8)
        assert not gradient[[0, 5, 16]].any()


def test_a_batch_without_targets_teaches_nothing():
    losses, gradients = losses_and_gradients(torch.randn(2, 3, 4), torch.full((3,), -100))
    assert [float(loss) for loss in losses] == [0.0, 0.0]
    assert not any(gradient.any() for gradient in gradients)


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


@pytest.mark.parametrize("decoder", ["linear", "linear:dropout=0"])
@pytest.mark.parametrize("optimizer", ["adamw", "adam"])
def test_steps_together_are_the_steps_of_autograd(splits, monkeypatch, decoder, optimizer):
    options = {"decoder": decoder, "optimizer": optimizer, "normalize": "standardize"}
    members = [*each_depth(**options), spec("p32", (1, 2, 3), freeze_head=True, **options)]
    together = fit(splits, *members)
    monkeypatch.setattr("probekit.train.steps.is_linear_probe", lambda member: False)
    alone = fit(splits, *members)
    for one, other in zip(together, alone, strict=True):
        for name, values in one.state.items():
            torch.testing.assert_close(values, other.state[name], rtol=1e-4, atol=1e-5)
        for (_, loss, _), (_, expected, _) in zip(one.curve, other.curve, strict=True):
            assert loss == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("batch_size", [3, 16])
def test_numbers_are_the_same_alone_and_together(splits, batch_size):
    members = [
        *each_depth(),
        *each_depth(normalize="standardize"),
        spec("mean", (1, 2, 3)),
        spec("p32", (1, 2, 3), freeze_head=True),
        spec(layers=(0, 1)),
        spec(layers=(2,), lr=1e-3),
        spec(layers=(1,), decoder="linear:dropout=0.5"),
    ]
    together = fit(splits, *members, batch_size=batch_size)
    for one, expected in zip(members, together, strict=True):
        (alone,) = fit(splits, one, batch_size=batch_size)
        assert alone.curve == expected.curve
        assert all(torch.equal(v, expected.state[name]) for name, v in alone.state.items())


def test_members_step_together_that_differ_in_what_they_read_alone(splits):
    alike = [*each_depth(), spec("mean", (1, 2)), spec(layers=(3,), normalize="layernorm")]
    frozen = spec("p32", (1, 2, 3), freeze_head=True)
    others = [
        spec(lr=1e-3),
        spec(weight_decay=0.1),
        spec(optimizer="adam"),
        spec(schedule="constant"),
        spec(decoder="linear:dropout=0.2"),
    ]
    alone = [spec("p32", (1, 2, 3)), spec(decoder="mlp"), spec(decoder="crf")]
    specs = [*alike, frozen, *others, *alone]
    members = [built(splits, one) for one in specs]
    found = steps_of(members)
    assert [type(one) for one in found] == [OwnSteps] * 3 + [LinearProbes] * 6
    sizes = [len(one._probes) for one in found if isinstance(one, LinearProbes)]
    assert sizes == [len(alike) + 1, 1, 1, 1, 1, 1]


def test_a_decoder_that_multiplies_in_bfloat16_steps_alone(splits):
    member = built(splits, spec())
    assert is_linear_probe(member)
    member.probe.heavy = True
    assert not is_linear_probe(member)


def test_a_probe_that_diverges_stops_and_leaves_the_others_alone(splits, monkeypatch):
    steps = []
    monkeypatch.setattr(
        "probekit.train.steps.losses_and_gradients",
        lambda logits, targets: steps.append(len(logits)) or losses_and_gradients(logits, targets),
    )
    start = fit(splits, spec())[0].state
    bad = {**start, "decoder.bias": torch.full_like(start["decoder.bias"], torch.inf)}
    members = [spec(layers=(1,)), replace(spec(layers=(2,)), start=bad), spec(layers=(3,))]
    steps.clear()
    together = fit(splits, *members)
    assert [result.diverged for result in together] == [False, True, False]
    assert (steps[0], steps[-1]) == (3, 2)
    for place in (0, 2):
        (alone,) = fit(splits, members[place])
        assert alone.curve == together[place].curve


def test_seconds_are_shared_out(splits):
    start = time.perf_counter()
    results = fit(splits, *each_depth())
    elapsed = time.perf_counter() - start
    (seconds,) = {result.train_seconds for result in results}
    assert 0 < len(results) * seconds < elapsed


def test_seconds_of_reading_count(splits, monkeypatch):
    real = Source.batches

    def slowly(source, *args, **options):
        for inputs in real(source, *args, **options):
            steps.append(len(inputs.targets))
            time.sleep(0.02)
            yield inputs

    steps = []
    monkeypatch.setattr(Source, "batches", slowly)
    results = fit(splits, *each_depth())
    assert sum(result.train_seconds for result in results) >= 0.02 * len(steps) > 0
