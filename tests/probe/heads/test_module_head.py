"""Any torch module as a head: its width, options, numbers and weights; what is no such module."""

from functools import partial

import pytest
import torch
from torch import nn

from probekit.base.registry import parse, text_of
from probekit.errors import PluginError
from probekit.probe.heads.module_head import spec_of_module
from probekit.testing.head_checks import DIM, LAYERS, build, check_head, sample_rows
from tests.plugged import Layered, Mixed, Rogue


class Fixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(384, 4)

    def forward(self, z):
        return self.map(z.flatten(1))


class Flat(nn.Module):
    def forward(self, z):
        return z.mean((1, 2))


class Wanting(Layered):
    def __init__(self, n_layers, dim, rank):
        super().__init__(n_layers, dim, rank)


@pytest.mark.parametrize("module", [Layered, Mixed, partial(Wanting, rank=3)])
def test_a_module_is_a_head(module):
    check_head(module)


def test_it_computes_what_the_module_computes():
    head, z = build(spec_of_module("mine", Layered)()), sample_rows()
    torch.testing.assert_close(head(z), head.module(z.contiguous()))
    assert head.width == 8 and head.layer_weights(z).by_layer() == {}
    mixed = build(spec_of_module("mixed", Mixed)())
    torch.testing.assert_close(mixed(z), z.mean(1))
    assert mixed.layer_weights(z).by_layer() == pytest.approx(dict.fromkeys(LAYERS, 0.25))


def test_its_other_parameters_are_options():
    known = {"mine": spec_of_module("mine", Layered)}
    spec = parse("head", "mine:hidden=3", known)
    assert build(spec).width == 3
    assert spec.to_json() == {"name": "mine", "hidden": 3, "dropout": 0.1}
    assert text_of(spec, known) == "mine:hidden=3"
    assert build(spec_of_module("three", partial(Wanting, rank=3))()).width == 3


def test_dropout_draws_from_numbers_of_its_own():
    spec, z = spec_of_module("mine", partial(Layered, dropout=0.5))(), sample_rows()
    first, again, other = (build(spec, seed=seed).train() for seed in (0, 0, 1))
    before = torch.get_rng_state()
    passes = [first(z), first(z)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert torch.equal(again(z), passes[0]) and torch.equal(again(z), passes[1])
    assert not torch.equal(passes[0], passes[1])
    assert not torch.equal(other(z), passes[0])


def test_planning_on_the_device_meta_counts_its_values():
    with torch.device("meta"):
        head = spec_of_module("mine", Layered)().build(LAYERS, DIM, torch.Generator("cpu"))
    values = sum(one.numel() for one in head.parameters())
    assert (head.width, values) == (8, len(LAYERS) * DIM * 8 + 8)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Rogue, r"What it makes of a row does not depend .* \(check fuses_row_by_row\)"),
        (Fixed, r"any number of layers and any width \(a module names n_layers and dim\)"),
        (Flat, r"shape \(2, 4, 48\) .* returned shape \(2,\); expected one vector per row"),
        (Wanting, "needs 'rank'; probekit passes only n_layers and dim, .* functools.partial"),
        (lambda dim: 3, r"it made 3, which is not a torch\.nn\.Module"),
    ],
)
def test_what_is_no_head(module, message):
    with pytest.raises(PluginError, match=message):
        check_head(module)
