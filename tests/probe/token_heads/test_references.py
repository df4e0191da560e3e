"""Every token head against pandas, scipy or plain torch, one text at a time."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.signal
import scipy.special
import torch
from torch.nn.functional import scaled_dot_product_attention

from probekit.base.registry import parse
from probekit.errors import ProbekitError
from probekit.probe.token_heads import TOKEN_HEADS, token_head_from_json
from probekit.testing import TOKEN_HEAD_CHECKS
from probekit.testing.row_checks import build

LAYERS, DIM = 2, 6
LENGTHS = (1, 2, 0, 9, 10, 11, 300)


def rolling(z, window):
    """The rolling mean of pandas."""
    return pd.DataFrame(z).rolling(window, min_periods=1).mean().max().to_numpy()


def ema(z, alpha):
    """What scipy's recursive filter reaches."""
    return scipy.signal.lfilter([alpha], [1, alpha - 1], z, axis=0).max(0)


REFERENCES = {
    "mean": lambda z: z.mean(0),
    "max": lambda z: z.max(0),
    "last": lambda z: z[-1],
    "ends": lambda z: np.concatenate([z[0], z[-1]]),
    "ema": lambda z: ema(z, 0.5),
    "ema:alpha=0.05": lambda z: ema(z, 0.05),
    "ema:alpha=1": lambda z: z.max(0),
    "rolling-max": lambda z: rolling(z, 10),
    "rolling-max:window=1": lambda z: z.max(0),
    "softmax": lambda z: (scipy.special.softmax(z, 0) * z).sum(0),
    "softmax:temperature=0.5": lambda z: (scipy.special.softmax(z / 0.5, 0) * z).sum(0),
}


@pytest.fixture(scope="module")
def tokens():
    bounds = np.cumsum([0, *LENGTHS])
    z = np.random.default_rng(3).normal(0, 3, (LAYERS, bounds[-1], DIM))
    return torch.from_numpy(z), torch.from_numpy(bounds)


def by_text(z, bounds, reference):
    """Return what a function says of each text and layer; zeros of a text without tokens."""
    edges = bounds.tolist()
    rows = [
        [reference(layer[a:b], n) if b > a else None for a, b in itertools.pairwise(edges)]
        for n, layer in enumerate(z)
    ]
    width = len(np.asarray(rows[0][0]))
    return np.array([[np.zeros(width) if row is None else row for row in of] for of in rows])


@pytest.mark.parametrize("text", REFERENCES)
def test_fixed_ones_equal_a_computation_text_by_text(text, tokens):
    z, bounds = tokens
    spec = parse("token head", text, TOKEN_HEADS)
    assert spec.fixed
    rows = spec.build(LAYERS, DIM, torch.Generator())(z, bounds)
    expected = by_text(z, bounds, lambda part, _: np.asarray(REFERENCES[text](part.numpy())))
    np.testing.assert_allclose(rows, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("heads", [1, 3])
def test_attention_equals_that_of_torch(heads, tokens):
    z, bounds = tokens
    pool = TOKEN_HEADS["attention"](heads=heads).build(LAYERS, DIM, torch.Generator()).double()
    pool.q = torch.nn.Parameter(torch.randn(LAYERS, heads, DIM, dtype=torch.float64))
    expected = by_text(
        z,
        bounds,
        lambda part, n: scaled_dot_product_attention(pool.q[n], part, part).flatten().detach(),
    )
    rows = pool(z, bounds).detach()
    np.testing.assert_allclose(rows, expected, rtol=1e-9, atol=1e-12)


def test_multimax_equals_a_linear_layer_and_a_maximum(tokens):
    z, bounds = tokens
    pool = TOKEN_HEADS["multimax"](heads=4).build(LAYERS, DIM, torch.Generator()).double()
    layers = [torch.nn.Linear(DIM, 4, dtype=torch.float64) for _ in range(LAYERS)]
    with torch.no_grad():
        pool.v.copy_(torch.stack([layer.weight for layer in layers]))
        pool.b.copy_(torch.stack([layer.bias for layer in layers])[:, None])
    expected = by_text(z, bounds, lambda part, n: layers[n](part).amax(0).detach())
    np.testing.assert_allclose(pool(z, bounds).detach(), expected, rtol=1e-9, atol=1e-12)


def test_attention_begins_as_the_average(tokens):
    z, bounds = tokens
    attention, mean = (
        TOKEN_HEADS[name]().build(LAYERS, DIM, torch.Generator()) for name in ("attention", "mean")
    )
    assert torch.allclose(attention(z.float(), bounds), mean(z.float(), bounds), atol=1e-5)


@pytest.mark.parametrize("name", [name for name, spec in TOKEN_HEADS.items() if spec.trains])
def test_gradients_are_those_of_finite_differences(name):
    pool = build(TOKEN_HEADS[name](heads=2)).double()
    z = torch.randn(3, 7, 8, dtype=torch.float64, requires_grad=True)
    bounds = torch.tensor([0, 3, 3, 7])
    assert torch.autograd.gradcheck(lambda z, *_: pool(z, bounds), (z, *pool.parameters()))


@pytest.mark.parametrize("name", TOKEN_HEADS)
@pytest.mark.parametrize("check", TOKEN_HEAD_CHECKS, ids=lambda check: check.__name__)
def test_contract(name, check):
    check(TOKEN_HEADS[name]())


@pytest.mark.parametrize(
    "text", ["attention:heads=3", "max:order=layers-first", "softmax", "mean:pair=concat"]
)
def test_its_dict_form_brings_it_back(text):
    spec = parse("token head", text, TOKEN_HEADS)
    assert token_head_from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attention:heads=0", "it has 1 head or more"),
        ("rolling-max:window=0", "a window is 1 or more"),
        ("ema:alpha=0", "above 0 and at most 1"),
        ("softmax:temperature=0", "above 0"),
        ("mean:order=sideways", "order"),
        ("mean:pair=sum", "pair"),
        ("meen", "Did you mean 'mean'"),
    ],
)
def test_what_cannot_be_is_told(text, message):
    with pytest.raises(ProbekitError, match=message):
        parse("token head", text, TOKEN_HEADS)
