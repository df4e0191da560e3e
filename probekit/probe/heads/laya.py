"""LAYA: a small network looks at all layers of a row at once and weighs each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from probekit.base.numbers import linear_uniform
from probekit.base.tensors import full, operand
from probekit.errors import OptionError
from probekit.probe.heads.contract import HeadSpec, LayerWeights, RowHead
from probekit.probe.heads.sums import mapped, row_sum
from probekit.probe.model_parts import Groups, divide


@dataclass(frozen=True, kw_only=True)
class LAYA(HeadSpec):
    """h = sum_i softmax_i(s / tau) g_i with g_i = A_i z_i + a_i and s = V gelu(U [g_1; ...; g_L]).

    Unlike `AttentionFusion`, whose score of a layer sees that layer alone, and `DWAtt`, whose
    query is the last layer, every score here depends on all layers together. The offset a_i is
    what a layer embedding would be. Biases in U and V; the paper's transform psi is the identity.

    Attributes:
        width: width of g_i and of h (ours; the paper's networks are small).
        scorer: hidden width of the scoring network (twice ``width``, as in the author's code).
        tau: temperature of the softmax (that of the author's code).
    """

    width: int = 256
    scorer: int = 512
    tau: float = 1.5

    name: ClassVar[str] = "laya"
    default_layers: ClassVar[str] = "1:"
    learning_rate: ClassVar[float] = 3e-3
    group_rates: ClassVar[Mapping[str, float | None]] = {"mixing": None}
    source: ClassVar[str] = "LAYA (Vessio, 2025; arXiv 2511.12723) and its author's code"
    summary: ClassVar[str] = "a network over all layers weighs a learned map of each"
    formula: ClassVar[str] = "sum_i softmax_i(MLP([g_1; ...; g_L]) / tau) g_i, g_i = A_i z_i + a_i"

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        for option, value in (("width", self.width), ("scorer", self.scorer)):
            if value < 1:
                raise OptionError(f"laya: {option} must be 1 or more, found {value}.")
        if not self.tau > 0:
            raise OptionError(f"laya: tau must be above 0, found {self.tau}.")

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; adapters, then the scorer's U and V, are drawn."""
        return LAYAHead(layers, dim, self, generator)


class LAYAHead(RowHead):
    """Module of `LAYA`; every matrix has shape (in, out)."""

    per_row = True
    additive = True

    def __init__(
        self, layers: tuple[int, ...], dim: int, spec: LAYA, generator: torch.Generator
    ) -> None:
        """Draw every parameter as ``torch.nn.Linear`` would."""
        super().__init__(layers, dim)
        n, width, scorer = len(layers), spec.width, spec.scorer
        self.width, self.tau = width, spec.tau
        self.adapter = linear_uniform(n, dim, width, fan_in=dim, generator=generator)
        self.adapter_bias = linear_uniform(n, 1, width, fan_in=dim, generator=generator)
        self.u = linear_uniform(n * width, scorer, fan_in=n * width, generator=generator)
        self.u_bias = linear_uniform(scorer, fan_in=n * width, generator=generator)
        self.v = linear_uniform(scorer, n, fan_in=scorer, generator=generator)
        self.v_bias = linear_uniform(n, fan_in=scorer, generator=generator)

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the sum of the mapped layers, weighted row by row."""
        mapped = self._map(z)
        return row_sum(self._scores(mapped).softmax(-1).t(), mapped)

    def parts(
        self, z: Float[Tensor, "layers rows dim"], weight: Float[Tensor, "outputs width"] | None
    ) -> Float[Tensor, "layers rows outputs"]:
        """Return softmax_i(s / tau) g_i, row by row; the scores s are of all layers together."""
        adapted = self._map(z)
        return self._scores(adapted).softmax(-1).t().unsqueeze(2) * mapped(adapted, weight)

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return the attention of each row, and its scores over tau as the raw weights."""
        assert z is not None
        raw = self._scores(self._map(z))
        return LayerWeights(self.layers, raw.softmax(-1), raw)

    def parameter_groups(self) -> Groups:
        """Return the scorer as ``mixing``: it acts on h through the attention alone."""
        return divide(self, mixing=(self.u, self.u_bias, self.v, self.v_bias))

    def _map(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "layers rows width"]:
        return torch.baddbmm(self.adapter_bias, operand(z), self.adapter)

    def _scores(self, mapped: Float[Tensor, "layers rows width"]) -> Float[Tensor, "rows layers"]:
        side_by_side = mapped.transpose(0, 1).flatten(1)
        hidden = functional.gelu(torch.addmm(self.u_bias, side_by_side, self.u))
        return full(torch.addmm(self.v_bias, hidden, self.v)) / self.tau
