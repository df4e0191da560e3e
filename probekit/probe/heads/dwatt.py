"""DWAtt: depth-wise attention, a query from the last layer over one learned value per layer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.base.numbers import linear_uniform
from probekit.base.tensors import full, no_autocast, operand
from probekit.errors import OptionError
from probekit.probe.heads.contract import HeadSpec, LayerWeights, RowHead
from probekit.probe.heads.sums import mapped, row_sum
from probekit.probe.model_parts import Groups, divide


@dataclass(frozen=True, kw_only=True)
class DWAtt(HeadSpec):
    """h = z_L + sum_n softmax_n(q . k_n) v_n.

    k_n = W_K pos_n with pos ~ U(0, 1) fixed; v_n = LN_n(f_n(z_n)); q = 1 + elu(z_L + f_Q(z_L));
    f(x) = W LN(gelu(U x)).

    Attributes:
        d_pos: width of the fixed layer positions (DWAtt, Table 4).
        bottleneck: hidden width of every f over d (gamma_Q = gamma_V in Table 4).
        scale: divide the scores by sqrt(d), so that their spread does not grow with the width; the
            paper does not.
    """

    d_pos: int = 24
    bottleneck: float = 0.5
    scale: bool = False

    name: ClassVar[str] = "dwatt"
    default_layers: ClassVar[str] = "1:"
    learning_rate: ClassVar[float] = 1e-3
    group_rates: ClassVar[Mapping[str, float | None]] = {"mixing": None}
    source: ClassVar[str] = "DWAtt, eq. 3-11"
    summary: ClassVar[str] = "depth-wise attention over a learned value per layer"
    formula: ClassVar[str] = "z_L + sum_n softmax_n(q . W_K pos_n) LN_n(f_n(z_n))"

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        if self.d_pos < 1:
            raise OptionError(f"dwatt: d_pos must be 1 or more, found {self.d_pos}.")
        if not self.bottleneck > 0:
            raise OptionError(f"dwatt: bottleneck must be above 0, found {self.bottleneck}.")

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; positions, keys, values and query are drawn in this order."""
        return DWAttHead(layers, dim, self, generator)


class DWAttHead(RowHead):
    """Module of `DWAtt`.

    ``key_bias`` is the affine part of W_K: it adds the same q . b to every layer's score, which
    softmax cancels, so it never learns; it is kept because the paper has it (and its count).
    """

    per_row = True
    additive = True
    pos: Tensor

    def __init__(
        self, layers: tuple[int, ...], dim: int, spec: DWAtt, generator: torch.Generator
    ) -> None:
        """Draw the fixed positions, then the parameters."""
        super().__init__(layers, dim)
        d_pos, hidden = spec.d_pos, max(1, int(dim * spec.bottleneck))
        self.divisor = math.sqrt(dim) if spec.scale else 1.0
        self.register_buffer("pos", torch.rand(len(layers), d_pos, generator=generator))
        self.key = linear_uniform(d_pos, dim, fan_in=d_pos, generator=generator)
        self.key_bias = linear_uniform(dim, fan_in=d_pos, generator=generator)
        self.value = StackedMLP(len(layers), dim, hidden, generator)
        self.value_norm = StackedLayerNorm(len(layers), dim)
        self.query = StackedMLP(1, dim, hidden, generator)

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the last layer plus what the attention picks from all layers' values."""
        values = self.value_norm(self.value(z))
        return full(z[-1]) + row_sum(self._scores(z[-1]).softmax(0), values)

    def parts(
        self, z: Float[Tensor, "layers rows dim"], weight: Float[Tensor, "outputs width"] | None
    ) -> Float[Tensor, "layers rows outputs"]:
        """Return softmax_n(q . k_n) v_n, row by row, and z_L besides for the last layer.

        The attention is that of the last layer's query; what it picks is counted for the layer
        that it is picked from.
        """
        attention = self._scores(z[-1]).softmax(0).unsqueeze(2)
        parts = attention * mapped(self.value_norm(self.value(z)), weight)
        parts[-1] += mapped(z[-1:], weight)[0]
        return parts

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return the attention of each row, and its scores as the raw weights."""
        assert z is not None
        raw = self._scores(z[-1]).t()
        return LayerWeights(self.layers, raw.softmax(-1), raw)

    def parameter_groups(self) -> Groups:
        """Return W_K and f_Q as ``mixing``: they act on h through the attention alone."""
        return divide(self, mixing=(self.key, self.key_bias, *self.query.parameters()))

    def _scores(self, last: Float[Tensor, "rows dim"]) -> Float[Tensor, "layers rows"]:
        query = 1 + functional.elu(full(last) + full(self.query(last.unsqueeze(0)).squeeze(0)))
        with no_autocast(last):
            keys = torch.addmm(self.key_bias, self.pos, self.key)
            scores = keys @ query.t()
            return scores if self.divisor == 1 else scores / self.divisor


class StackedLayerNorm(nn.Module):
    """One LayerNorm per layer, in float32; scale 1 and shift 0 at the start."""

    def __init__(self, n_layers: int, dim: int) -> None:
        """Create scale and shift, each (layers, 1, dim)."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_layers, 1, dim))
        self.bias = nn.Parameter(torch.zeros(n_layers, 1, dim))

    def forward(self, x: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "layers rows dim"]:
        """Normalise every row of every layer.

        One call for all layers cannot have their scales; on a CPU the passes over memory that this
        would take, above all in the backward pass, cost more than a call per layer.
        """
        x, shape = full(x), x.shape[-1:]
        if x.device.type != "cpu":
            return torch.addcmul(self.bias, functional.layer_norm(x, shape), self.weight)
        layers = zip(x, self.weight.squeeze(1), self.bias.squeeze(1), strict=True)
        return torch.stack([functional.layer_norm(z, shape, w, b) for z, w, b in layers])


class StackedMLP(nn.Module):
    """f_n(x) = W_n LN_n(gelu(U_n x)) for every layer n; biases in U and W (DWAtt, eq. 11).

    ``u`` has shape (layers, dim, hidden) and ``w`` (layers, hidden, dim): the paper's U_n and W_n,
    transposed.
    """

    def __init__(self, n_layers: int, dim: int, hidden: int, generator: torch.Generator) -> None:
        """Draw U, its bias, W and its bias, in this order, as ``torch.nn.Linear`` would."""
        super().__init__()
        self.u = linear_uniform(n_layers, dim, hidden, fan_in=dim, generator=generator)
        self.u_bias = linear_uniform(n_layers, 1, hidden, fan_in=dim, generator=generator)
        self.norm = StackedLayerNorm(n_layers, hidden)
        self.w = linear_uniform(n_layers, hidden, dim, fan_in=hidden, generator=generator)
        self.w_bias = linear_uniform(n_layers, 1, dim, fan_in=hidden, generator=generator)

    def forward(self, x: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "layers rows dim"]:
        """Return f_n(x_n); products in the autocast dtype, the norm in float32."""
        x = torch.baddbmm(self.u_bias, operand(x), self.u)
        x = self.norm(functional.gelu(x))
        return torch.baddbmm(self.w_bias, x, self.w)
