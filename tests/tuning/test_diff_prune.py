"""Diff pruning: gates by their equation, the penalty's gradient, and how many values differ."""

import math

import pytest
import torch
from torch.nn.utils import parametrize

from probekit.tuning import Tuned
from probekit.tuning.diff_prune import Difference, DiffPrune
from tests import tiny
from tests.tuning.cases import IDS, LENGTHS, learning


@pytest.fixture
def backbone(tmp_path):
    return learning(tiny.build("bert", tmp_path))


def attached(backbone, **options):
    method = DiffPrune(**options)
    values = method.attach(backbone.model, torch.Generator())
    return Tuned(backbone.model, values, method), values


def test_gates_are_closed_as_often_as_louizos_says():
    one = Difference(torch.zeros(200_000))
    for place in (-1.0, 0.0, 0.5, 5.0):
        with torch.no_grad():
            one.gates.fill_(place)
            one.difference.fill_(1.0)
            torch.manual_seed(0)
            gates = one.train()(torch.zeros(200_000))
            opened = 1 / (1 + math.exp(-place))  # sigmoid(a - log(-l / r)), and l = -r
            assert gates.min() >= 0 and gates.max() <= 1
            assert float((gates > 0).float().mean()) == pytest.approx(opened, abs=0.01)
            still = one.eval()(torch.zeros(200_000))
        assert float(still[0]) == pytest.approx(min(1, max(0, 3 * opened - 1.5)))


def test_the_penalty_pulls_at_gates_alone(backbone):
    tuned, values = attached(backbone, penalty=0.5)
    tuned.before_step(1.0)
    slope = 0.5 * torch.sigmoid(torch.tensor(5.0)) * torch.sigmoid(torch.tensor(-5.0))
    for name, value in values.items():
        if name.endswith(".gates"):
            torch.testing.assert_close(value.grad, torch.full_like(value, float(slope)))
        else:
            assert value.grad is None
    gates, weights = tuned.parameter_groups()["gates"], tuned.parameter_groups()["backbone"]
    assert len(gates) == len(weights) == len(values) // 2


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_a_share_of_the_values_differs_in_evaluation_also_among_equals(share, backbone):
    plain = {name: value.clone() for name, value in backbone.model.state_dict().items()}
    own = sum(value.numel() for value in plain.values())
    tuned, values = attached(backbone, share=share)
    assert tuned.changed == 0 and tuned.n_model == 3 * own

    def differing():
        tuned.eval()
        with torch.no_grad():
            backbone.layers(IDS, LENGTHS)
            found = 0
            for name, value in plain.items():
                place, _, last = name.rpartition(".")
                now = getattr(backbone.model.get_submodule(place), last)
                found += int((now != value).sum())
        return found

    with torch.no_grad():
        for name, value in values.items():
            if name.endswith(".difference"):  # as after the first step of Adam
                value.copy_(torch.where(torch.rand_like(value) < 0.5, 1.0, -1.0))
    assert differing() == int(share * own) == round(tuned.changed * own)
    with torch.no_grad():  # others are the largest now
        for name, value in values.items():
            if name.endswith("bias.0.difference"):
                value.fill_(8.0)
    assert differing() == int(share * own)
    norm = backbone.model.encoder.layer[2].output.LayerNorm
    biases = sum(v.numel() for n, v in plain.items() if n.endswith("bias"))
    if biases <= int(share * own):
        assert bool((norm.bias != plain["encoder.layer.2.output.LayerNorm.bias"]).all())
    parametrize.remove_parametrizations(norm, "bias", leave_parametrized=True)
    assert isinstance(norm.bias, torch.nn.Parameter)


def test_at_last_the_largest_learn_alone(backbone):
    tuned, values = attached(backbone, share=0.1, fixed=0.5)
    own = tuned.n_model // 3
    with torch.no_grad():
        for name, value in values.items():
            if name.endswith(".difference"):
                value.copy_(torch.randn(value.shape, generator=torch.Generator().manual_seed(0)))
    optimizer = torch.optim.AdamW(tuned.parameters(), lr=1e-2, weight_decay=0.1)
    chosen, before = [], {}
    for remaining in (1.0, 0.5, 0.4, 0.3):
        tuned.train()
        backbone.layers(IDS, LENGTHS)[-1][0, :, 0].sum().backward()
        tuned.before_step(remaining)
        optimizer.step()
        optimizer.zero_grad()
        tuned.eval()
        with torch.no_grad():
            backbone.layers(IDS, LENGTHS)
        found = [one for one in backbone.model.modules() if isinstance(one, Difference)]
        kept = torch.cat([one.kept.flatten() for one in found])
        now = torch.cat([(one(torch.zeros_like(one.gates))).flatten() for one in found])
        assert int(kept.sum()) == int(0.1 * own) and not now[~kept].any()
        chosen.append(kept)
        before[remaining] = now
    assert torch.equal(chosen[1], chosen[2]) and torch.equal(chosen[2], chosen[3])
    assert (before[0.4] != before[0.3])[chosen[3]].any(), "they learn on"


def test_what_an_optimiser_that_writes_unseen_changed_is_scored(backbone):
    """Fused ones do not count what they write in place."""
    tuned, values = attached(backbone, share=0.1)
    optimiser = torch.optim.AdamW(values.values(), lr=1e-2, fused=True)

    def scored():
        with torch.no_grad():
            return backbone.layers(IDS, LENGTHS, [3])[0]

    tuned.eval()
    scored()
    for _ in range(3):
        tuned.train()
        backbone.layers(IDS, LENGTHS, [3])[0].square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        found = (tuned.eval(), scored())[1]
        for value in values.values():
            value.data = value.data.clone()  # as a model that was read holds them
        tuned.train()
        with torch.no_grad():
            backbone.layers(IDS, LENGTHS, [3])
        again = (tuned.eval(), scored())[1]
        assert torch.equal(found, again)
    parts = [part for part in backbone.model.modules() if isinstance(part, Difference)]
    assert any(bool((part.kept & (part.difference != 0)).any()) for part in parts)
