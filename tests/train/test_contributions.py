"""Contributions of layers: they sum to 1, and equal a direct computation over all rows."""

import numpy as np
import pytest
import torch

from probekit.features import Location, open_features
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.attribution import Contributions
from probekit.train.fit import fit_group
from probekit.train.probe import Probe
from tests.planted import MODEL, TASK, plant_all
from tests.train.grouped import member_spec, stream_spec

LAYERS = (1, 2, 4)


def probe_and_rows(decoder="linear", n_classes=4, rows=200):
    generator = torch.Generator().manual_seed(0)
    head = HEADS["concat"]().build(LAYERS, 6, generator)
    decode = DECODERS[decoder]().build(6, n_classes, generator)
    z = torch.randn(rows, len(LAYERS), 6, generator=generator) + 3  # far from zero
    z[:, 1] += z[:, 0]  # layers that go together
    return Probe(head, decode).eval(), z


def shares(parts):
    """Return Cov(part, sum) / Var(sum) of parts (layers, rows, outputs), in float64."""
    if parts.shape[2] > 1:
        parts = parts - parts.mean(2, keepdims=True)
    parts = parts - parts.mean(1, keepdims=True)
    total = parts.sum(0)
    return np.einsum("lro,ro->l", parts, total) / (total**2).sum()


def parts_of(probe, z):
    maps = probe.head.weight.detach().double().numpy()
    return np.einsum("rld,ldo->lro", z.double().numpy(), maps)


def contributions(probe, z, size):
    found = Contributions(probe.head, probe.decoder.logit_weight)
    for first in range(0, len(z), size):
        found.add(z[first : first + size])
    return found


@pytest.mark.parametrize("size", [200, 64, 1])
def test_equal_a_direct_computation_whatever_the_blocks(size):
    probe, z = probe_and_rows()
    decoder = probe.decoder.weight.detach().double().numpy()
    expected = shares(parts_of(probe, z) @ decoder.T)
    found = contributions(probe, z, size).weights()
    assert found.layers == LAYERS and found.weights.dtype == torch.float64
    assert found.weights.numpy() == pytest.approx(expected, abs=1e-5)
    assert float(found.weights.sum()) == pytest.approx(1, abs=1e-12)


def test_they_are_parts_of_what_the_probe_computes():
    """The parts and the biases make the logits, so the shares are of the true variance."""
    probe, z = probe_and_rows()
    weight, bias = (value.detach().double().numpy() for value in probe.decoder.affine)
    constant = probe.head.bias.detach().double().numpy() @ weight.T + bias
    logits = (parts_of(probe, z) @ weight.T).sum(0) + constant
    assert logits == pytest.approx(probe.logits(z).detach().numpy(), abs=1e-4)


def test_a_decoder_that_is_not_affine_leaves_h():
    probe, z = probe_and_rows("mlp")
    assert probe.decoder.affine is None
    found = contributions(probe, z, 64).weights()
    assert found.weights.numpy() == pytest.approx(shares(parts_of(probe, z)), abs=1e-5)


def test_a_single_output_is_not_its_own_mean():
    probe, z = probe_and_rows(n_classes=1)
    weight = probe.decoder.affine[0].detach().double().numpy()
    expected = shares(parts_of(probe, z) @ weight.T)
    assert list(contributions(probe, z, 64).shares().values()) == pytest.approx(expected, abs=1e-5)
    assert np.ptp(expected) > 0.01


def test_a_layer_that_the_map_ignores_has_nothing_whatever_its_norm():
    probe, z = probe_and_rows()
    z[:, 0] = 5.0  # a large map of what never varies
    with torch.no_grad():
        probe.head.weight[0] *= 100
    found = contributions(probe, z, 64).shares()
    assert abs(found[1]) < 1e-3
    assert probe.head.layer_weights().by_layer()[1] > 0.9


def test_logits_that_do_not_vary_have_even_shares():
    probe, z = probe_and_rows()
    with torch.no_grad():
        probe.decoder.weight.zero_()
    found = contributions(probe, z, 64)
    assert found.weights().weights.tolist() == [1 / 3] * 3 and found.shares() == {}
    with torch.no_grad():
        probe.decoder.weight.fill_(float("inf"))
    found = contributions(probe, z, 64)
    assert found.weights().weights.isnan().all() and found.shares() == {}


def test_training_records_them(tmp_path):
    plant_all(tmp_path, signal=(2,))
    splits = open_features(MODEL, TASK, "ner", Location(cache=tmp_path))
    members = tuple(
        member_spec(head=HEADS[head](), decoder=DECODERS["linear"](), layers=(1, 2, 3), lr=1e-2)
        for head in ("p32", "concat", "dwatt")
    )
    train = splits.view("train", valid_only=True)
    stream = stream_spec(train=train, seed=0, epochs=4, members=members)
    dev = splits.view("dev")
    p32, concat, dwatt = fit_group([stream], dev, metric=METRICS["accuracy"])[0]
    assert sum(concat.weights.values()) == pytest.approx(1, abs=1e-9)
    assert max(concat.weights, key=concat.weights.get) == 2 and concat.weights[2] > 0.7
    assert concat.class_weights == {} and dwatt.class_weights
    assert sum(p32.weights.values()) == pytest.approx(1, abs=1e-6)
    z = dev.array.read(torch.from_numpy(dev.rows), [1, 2, 3]).double().numpy()
    maps = concat.state["head.weight"].double() @ concat.state["decoder.weight"].double().T
    parts = np.einsum("rld,ldo->lro", z, maps.numpy())
    assert list(concat.weights.values()) == pytest.approx(shares(parts), abs=1e-5)
