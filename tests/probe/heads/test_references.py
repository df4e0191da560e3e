"""Each head equals a short reference written from its paper's equation: values and gradients.

The references loop over layers and take matrices as the papers write them (out x in); they share
nothing with the heads but the parameters, which they read from the head by name.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from probekit.errors import OptionError
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import FusionHead
from probekit.testing.promises import moved_from_start

Params = dict[str, Tensor]
EPS = 1e-5


def ref_last(z: list[Tensor], p: Params) -> Tensor:
    """All three papers: h = z_L."""
    return z[-1]


def ref_mean(z: list[Tensor], p: Params) -> Tensor:
    """P-32, eq. 2: h = 1/|H| sum_i h_i."""
    return sum(z[1:], z[0]) / len(z)


def ref_p32(z: list[Tensor], p: Params) -> Tensor:
    """P-32, eq. 1: h = sum_i h_i e^lambda_i / sum_j e^lambda_j."""
    e = p["lambda_"].exp()
    return torch.stack([z[i] * e[i] / e.sum() for i in range(len(z))]).sum(0)


def ref_scalar_mix(z: list[Tensor], p: Params) -> Tensor:
    """ELMo, eq. 1: h = gamma sum_i s_i z_i with s softmax-normalised."""
    e = p["s"].exp()
    return p["gamma"] * torch.stack([z[i] * e[i] / e.sum() for i in range(len(z))]).sum(0)


def ref_attention_fusion(z: list[Tensor], p: Params) -> Tensor:
    """Attention fusion, eq. 1-2: alpha_j = exp(q v_j) / sum_k exp(q v_k), c = sum_j alpha_j v_j."""
    rows = []
    for r in range(len(z[0])):
        e = torch.stack([(p["q"] * layer[r]).sum().exp() for layer in z])
        rows.append(torch.stack([e[i] / e.sum() * z[i][r] for i in range(len(z))]).sum(0))
    return torch.stack(rows)


def ref_concat(z: list[Tensor], p: Params) -> Tensor:
    """DWAtt, eq. 2: h = sum_n W_n z_n, affine ("Concat: Affine" in Table 2)."""
    h = p["bias"].expand_as(z[0])
    for n in range(len(z)):
        h = h + z[n] @ p["weight"][n]
    return h


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + EPS).sqrt() * weight + bias


def mlp(x: Tensor, p: Params, role: str, n: int) -> Tensor:
    """DWAtt, eq. 11: f_n(x) = W_n LN(gelu(U_n x))."""
    x = x @ p[f"{role}.u"][n] + p[f"{role}.u_bias"][n]
    x = x * 0.5 * (1 + torch.erf(x / 2**0.5))
    x = layer_norm(x, p[f"{role}.norm.weight"][n], p[f"{role}.norm.bias"][n])
    return x @ p[f"{role}.w"][n] + p[f"{role}.w_bias"][n]


def ref_dwatt(z: list[Tensor], p: Params, divisor: float = 1.0) -> Tensor:
    """DWAtt, eq. 3-10; the scores over ``divisor``, which the paper does not have."""
    x = z[-1] + mlp(z[-1], p, "query", 0)
    q = 1 + torch.where(x > 0, x, x.clamp(max=0).exp() - 1)  # eq. 5
    h, total = 0.0, 0.0
    for n in range(len(z)):
        k = p["pos"][n] @ p["key"] + p["key_bias"]  # eq. 10
        norm = p["value_norm.weight"][n], p["value_norm.bias"][n]
        v = layer_norm(mlp(z[n], p, "value", n), *norm)  # eq. 4
        e = ((q * k).sum(-1, keepdim=True) / divisor).exp()  # eq. 7
        h, total = h + e * v, total + e
    return z[-1] + h / total  # eq. 8-9


def ref_concat_ffn(z: list[Tensor], p: Params) -> Tensor:
    """Attention fusion, section 3.3, "concat-fusion": all layers, concatenated."""
    return torch.cat(z, -1)


def ref_depth_lstm(z: list[Tensor], p: Params) -> Tensor:
    """Hochreiter & Schmidhuber's cell with forget gates, over the layers instead of time."""
    h = c = torch.zeros_like(z[0])
    for layer in z:
        a = layer @ p["lstm.weight_ih_l0"].t() + p["lstm.bias_ih_l0"]
        a = a + h @ p["lstm.weight_hh_l0"].t() + p["lstm.bias_hh_l0"]
        i, f, g, o = a.unflatten(-1, (4, -1)).unbind(-2)
        c = c / (1 + (-f).exp()) + torch.tanh(g) / (1 + (-i).exp())
        h = torch.tanh(c) / (1 + (-o).exp())
    return h


def ref_laya(z: list[Tensor], p: Params) -> Tensor:
    """LAYA: g_i = A_i z_i + a_i, s = MLP([g_1; ...; g_L]), h = sum_i softmax_i(s / 1.5) g_i."""
    g = [z[i] @ p["adapter"][i] + p["adapter_bias"][i] for i in range(len(z))]
    x = torch.cat(g, -1) @ p["u"] + p["u_bias"]
    s = (x * 0.5 * (1 + torch.erf(x / 2**0.5))) @ p["v"] + p["v_bias"]
    e = (s / 1.5).exp()
    return sum(e[:, i : i + 1] / e.sum(-1, keepdim=True) * g[i] for i in range(len(z)))


REFERENCES: dict[str, Callable[[list[Tensor], Params], Tensor]] = {
    name.removeprefix("ref_").replace("_", "-"): reference
    for name, reference in globals().items()
    if name.startswith("ref_")
}


def random_head(name: str, layers: tuple[int, ...], dim: int) -> FusionHead:
    """A float64 head whose every parameter is random (those that start at 0 or 1 included)."""
    head = HEADS[name]().build(layers, dim, torch.Generator().manual_seed(0))
    return moved_from_start(head).double()


def test_every_head_has_a_reference() -> None:
    rows = {name for name, spec in HEADS.items() if spec.reads == "rows"}
    missing = rows - REFERENCES.keys()
    assert not missing, f"write the equation of {sorted(missing)} as a reference in this file"
    assert REFERENCES.keys() == rows


@pytest.mark.parametrize("layers", [(1, 2, 3, 4, 5), (0, 3), (7,)], ids=len)
@pytest.mark.parametrize("name", REFERENCES)
def test_equals_the_paper(name: str, layers: tuple[int, ...]) -> None:
    dim, rows = 10, 6
    head = random_head(name, layers, dim)
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(len(layers), rows, dim, dtype=torch.float64, generator=generator)
    z.requires_grad_()
    pull = torch.randn(rows, head.width, dtype=torch.float64, generator=generator)

    params = {n: p.detach().clone().requires_grad_() for n, p in head.named_parameters()}
    buffers = {n: b.clone() for n, b in head.named_buffers()}
    expected = REFERENCES[name](list(z.unbind()), params | buffers)
    wanted = torch.autograd.grad((expected * pull).sum(), [z, *params.values()], allow_unused=True)

    actual = head(z.transpose(0, 1))
    leaves = [z, *head.parameters()]
    found = torch.autograd.grad((actual * pull).sum(), leaves, allow_unused=True)

    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    for leaf, a, b in zip(["z", *params], found, wanted, strict=True):
        assert a is not None and b is not None, leaf
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=leaf)


def test_dwatt_may_divide_its_scores_by_the_root_of_the_width() -> None:
    head = HEADS["dwatt"](scale=True).build((1, 2, 3), 16, torch.Generator().manual_seed(0))
    head = head.double()
    z = torch.randn(3, 6, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = ref_dwatt(list(z.unbind()), head.state_dict(), divisor=4.0)
    torch.testing.assert_close(head(z.transpose(0, 1)), expected, rtol=1e-10, atol=1e-12)
    plain = HEADS["dwatt"]().build((1, 2, 3), 16, torch.Generator().manual_seed(0)).double()
    assert (plain(z.transpose(0, 1)) - expected).abs().max() > 1e-3
    raws = [one.layer_weights(z.transpose(0, 1)).raw for one in (plain, head)]
    torch.testing.assert_close(raws[0], 4 * raws[1])


def test_a_narrow_depth_lstm_is_the_same_cell() -> None:
    spec = HEADS["depth-lstm"](hidden=3)
    head = spec.build((1, 2), 8, torch.Generator().manual_seed(0)).double()
    z = torch.randn(5, 2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    state = torch.zeros(5, 3, dtype=torch.float64)
    cell = torch.nn.LSTMCell(8, 3).double()
    cell.load_state_dict({n.removeprefix("lstm.")[:-3]: v for n, v in head.state_dict().items()})
    pair = (state, state)
    for layer in z.unbind(1):
        pair = cell(layer, pair)
    assert head.width == 3
    torch.testing.assert_close(head(z), pair[0])
    assert head.layer_weights(z).weights.shape == (5, 2)
    with pytest.raises(OptionError, match="hidden must be 1 or more, found 0"):
        HEADS["depth-lstm"](hidden=0)


def test_depth_lstm_weighs_layers_by_their_share_of_the_cell() -> None:
    """By differentiation: with its gates held, c is linear in each layer's candidate i g."""
    dim, rows = 4, 3
    head = random_head("depth-lstm", (1, 2, 3, 4), dim)
    z = torch.randn(4, rows, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    p = {n: v.detach() for n, v in head.named_parameters()}
    h = c = torch.zeros_like(z[0])
    switches = torch.ones(4, dtype=torch.float64, requires_grad=True)
    for layer, switch in zip(z, switches, strict=True):
        a = layer @ p["lstm.weight_ih_l0"].t() + p["lstm.bias_ih_l0"]
        a = a + h @ p["lstm.weight_hh_l0"].t() + p["lstm.bias_hh_l0"]
        i, f, g, o = a.unflatten(-1, (4, -1)).unbind(-2)
        c = c * f.sigmoid() + switch * i.sigmoid() * g.tanh()
        h = (o.sigmoid() * c.tanh()).detach()
    terms = torch.stack(
        [torch.autograd.grad(v, switches, retain_graph=True)[0] for v in c.flatten()]
    ).view(rows, dim, 4)
    norms = terms.norm(dim=1)
    torch.testing.assert_close(terms.sum(-1), c.detach())
    found = head.layer_weights(z.transpose(0, 1)).weights
    torch.testing.assert_close(found, norms / norms.sum(-1, keepdim=True))
