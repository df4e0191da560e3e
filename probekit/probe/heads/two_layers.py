"""DWAtt's bottleneck MLPs, one per layer, run for all layers at once as batched products."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.base.numbers.initialization import linear_uniform
from probekit.base.numbers.precision import full, operand


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
