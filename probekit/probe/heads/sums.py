"""Weighted sums over the layers, and the heads that are nothing else.

The sums run in float32 whatever the stored dtype and autocast state.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from probekit.base.tensors import full, no_autocast
from probekit.probe.heads.contract import (
    Fused,
    HeadSpec,
    Layers,
    LayerWeights,
    OutputMap,
    Parts,
    RowHead,
    Trains,
)
from probekit.probe.model_parts import Groups, divide


def static_sum(weights: Float[Tensor, " layers"], z: Layers) -> Float[Tensor, "rows dim"]:
    """Return sum_i weights_i z_i in float32, as one product of a vector and a matrix."""
    n_layers, rows, dim = z.shape
    with no_autocast(z):
        return (weights @ full(z).reshape(n_layers, rows * dim)).view(rows, dim)


def mapped(z: Float[Tensor, "layers rows width"], weight: OutputMap | None) -> Parts:
    """Return ``weight z_i`` for every layer and row, or z itself without a weight."""
    return z if weight is None else z @ weight.to(z.dtype).t()


def row_scores(query: Float[Tensor, " dim"], z: Layers) -> Float[Tensor, "layers rows"]:
    """Return query . z_i for every layer and row in float32."""
    n_layers, rows, dim = z.shape
    with no_autocast(z):
        return (full(z).reshape(n_layers * rows, dim) @ query).view(n_layers, rows)


def row_sum(weights: Float[Tensor, "layers rows"], z: Layers) -> Float[Tensor, "rows dim"]:
    """Return sum_i weights_i z_i with weights per row, in float32.

    A batch of products, one per row, is what a GPU wants; a CPU takes them one after the other,
    each with a copy of its row in the backward pass (``benchmarks/row_sum.py``).
    """
    with no_autocast(z):
        z = full(z)
        if z.device.type != "cpu":
            return torch.bmm(weights.t().unsqueeze(1), z.transpose(0, 1)).squeeze(1)
        total: Tensor = _RowSum.apply(weights, z)  # type: ignore[no-untyped-call]
        return total


class _RowSum(torch.autograd.Function):
    """`row_sum` layer by layer, with nothing kept but its operands."""

    @staticmethod
    def forward(ctx: Any, weights: Float[Tensor, "layers rows"], z: Layers) -> Tensor:
        """Return the sum."""
        ctx.save_for_backward(weights, z)
        out = weights[0].unsqueeze(1) * z[0]
        for weight, layer in zip(weights[1:], z[1:], strict=True):
            out.addcmul_(weight.unsqueeze(1), layer)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of the weights and, where z has one, of z."""
        weights, z = ctx.saved_tensors
        of_weights = of_z = None
        # By the weight of layer i in a row: z_i . gradient; by z_i: the weight times the gradient.
        if ctx.needs_input_grad[0]:
            of_weights, products = torch.empty_like(weights), torch.empty_like(gradient)
            for by_weight, layer in zip(of_weights, z, strict=True):
                torch.sum(torch.mul(layer, gradient, out=products), -1, out=by_weight)
        if ctx.needs_input_grad[1]:
            of_z = weights.unsqueeze(-1) * gradient
        return of_weights, of_z


@dataclass(frozen=True, kw_only=True)
class Last(HeadSpec):
    """h = z_L, where L is the last layer of the head's own choice; no parameters."""

    name: ClassVar[str] = "last"
    default_layers: ClassVar[str] = "-1"
    learning_rate: ClassVar[float] = 1e-2
    trains: ClassVar[Trains] = "nothing"
    source: ClassVar[str] = "baseline of all three papers"
    summary: ClassVar[str] = "the last layer alone"
    formula: ClassVar[str] = "z_L"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; it has no parameters and draws nothing."""
        return LastHead(layers, dim)


class LastHead(RowHead):
    """Module of `Last`."""

    additive = True
    linear = True

    def fuse(self, z: Layers) -> Fused:
        """Return the rows of the last layer."""
        return full(z[-1])

    def parts(self, z: Layers, weight: OutputMap | None) -> Parts:
        """Return z_L for the last layer and 0 for the others."""
        last = mapped(z[-1:], weight)
        return torch.cat([last.new_zeros(len(z) - 1, *last.shape[1:]), last])

    def weigh(self, z: Layers | None) -> LayerWeights:
        """Return 1 for the last layer and 0 for the others."""
        weights = torch.zeros(len(self.layers))
        weights[-1] = 1.0
        return LayerWeights(self.layers, weights)


@dataclass(frozen=True, kw_only=True)
class Mean(HeadSpec):
    """h = the average of z_i; no parameters."""

    name: ClassVar[str] = "mean"
    default_layers: ClassVar[str] = "1:"
    learning_rate: ClassVar[float] = 1e-2
    trains: ClassVar[Trains] = "nothing"
    source: ClassVar[str] = 'DWAtt, Table 2 "Average"; P-32, eq. 2'
    summary: ClassVar[str] = "the average of all layers"
    formula: ClassVar[str] = "1/L sum_i z_i"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; it has no parameters and draws nothing."""
        return MeanHead(layers, dim)


class MeanHead(RowHead):
    """Module of `Mean`."""

    additive = True
    linear = True

    def fuse(self, z: Layers) -> Fused:
        """Return the average over the layers, summed in float32."""
        z = full(z)
        return static_sum(z.new_full((len(self.layers),), 1 / len(self.layers)), z)

    def parts(self, z: Layers, weight: OutputMap | None) -> Parts:
        """Return z_i / L."""
        return mapped(z, weight) / len(self.layers)

    def weigh(self, z: Layers | None) -> LayerWeights:
        """Return the same weight for every layer."""
        return LayerWeights.even(self.layers)


class SoftmaxSum(RowHead):
    """A sum of the layers whose weights are one softmax, the same for all rows."""

    additive = True
    linear = True

    @property
    @abstractmethod
    def scores(self) -> nn.Parameter:
        """What the softmax is of, a value per layer."""

    def factors(self) -> Float[Tensor, " layers"]:
        """Return what each layer is multiplied with."""
        return self.scores.softmax(0)

    def fuse(self, z: Layers) -> Fused:
        """Return the weighted sum of the layers."""
        return static_sum(self.factors(), z)

    def parts(self, z: Layers, weight: OutputMap | None) -> Parts:
        """Return each layer times its factor."""
        return self.factors().view(-1, 1, 1) * mapped(z, weight)

    def weigh(self, z: Layers | None) -> LayerWeights:
        """Return the softmax, and what it is of as the raw weights (P-32, Figure 2)."""
        raw = self.scores.detach().clone()
        return LayerWeights(self.layers, raw.softmax(0), raw)

    @torch.no_grad()
    def load_mixture(self, values: Float[Tensor, " values"]) -> None:
        """Take what the softmax is of."""
        self.scores.copy_(values)


@dataclass(frozen=True, kw_only=True)
class P32(HeadSpec):
    """h = sum_i softmax(lambda)_i z_i; lambda starts at 0, so training starts from the average."""

    name: ClassVar[str] = "p32"
    default_layers: ClassVar[str] = "1:"
    learning_rate: ClassVar[float] = 1e-2
    group_rates: ClassVar[Mapping[str, float | None]] = {"mixing": 0.2}
    trains: ClassVar[Trains] = "mixture"
    source: ClassVar[str] = "P-32, eq. 1"
    summary: ClassVar[str] = "one learned softmax weight per layer"
    formula: ClassVar[str] = "sum_i softmax(lambda)_i z_i"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; lambda starts at 0, nothing is drawn."""
        return P32Head(layers, dim)


class P32Head(SoftmaxSum):
    """Module of `P32`."""

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Create lambda, one scalar per layer."""
        super().__init__(layers, dim)
        self.lambda_ = nn.Parameter(torch.zeros(len(layers)))

    @property
    def scores(self) -> nn.Parameter:
        """Lambda."""
        return self.lambda_

    def parameter_groups(self) -> Groups:
        """Return lambda as ``mixing``."""
        return divide(self, mixing=(self.lambda_,))


@dataclass(frozen=True, kw_only=True)
class ScalarMix(HeadSpec):
    """h = gamma sum_i softmax(s)_i z_i; s starts at 0 and gamma at 1. Layer 0 takes part."""

    name: ClassVar[str] = "scalar-mix"
    default_layers: ClassVar[str] = "all"
    learning_rate: ClassVar[float] = 1e-2
    group_rates: ClassVar[Mapping[str, float | None]] = {"mixing": 0.2}
    trains: ClassVar[Trains] = "mixture"
    source: ClassVar[str] = 'attention fusion, section 3.3 "linear-fusion"; ELMo, eq. 1'
    summary: ClassVar[str] = "softmax weights times a learned scale"
    formula: ClassVar[str] = "gamma sum_i softmax(s)_i z_i"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; s starts at 0 and gamma at 1, nothing is drawn."""
        return ScalarMixHead(layers, dim)


class ScalarMixHead(SoftmaxSum):
    """Module of `ScalarMix`."""

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Create s, one scalar per layer, and gamma."""
        super().__init__(layers, dim)
        self.s = nn.Parameter(torch.zeros(len(layers)))
        self.gamma = nn.Parameter(torch.ones(()))

    @property
    def scores(self) -> nn.Parameter:
        """The values s; gamma is no part of a layer's weight."""
        return self.s

    def factors(self) -> Float[Tensor, " layers"]:
        """Return gamma softmax(s)."""
        return self.gamma * super().factors()

    @torch.no_grad()
    def load_mixture(self, values: Float[Tensor, " values"]) -> None:
        """Take s; gamma is 1, where a solver holds it."""
        super().load_mixture(values)
        self.gamma.fill_(1.0)

    def parameter_groups(self) -> Groups:
        """Return s and gamma as ``mixing``."""
        return divide(self, mixing=(self.s, self.gamma))


@dataclass(frozen=True, kw_only=True)
class AttentionFusion(HeadSpec):
    """h = sum_i softmax_i(q . z_i) z_i, with one learned q per task.

    The paper leaves the start of q open. It starts at 0 here: every layer then weighs the same, as
    in `P32`, whatever the scale of the states; a random q would let a decoder's massive
    activations (row norms up to 30,000) saturate the softmax before the first step.
    """

    name: ClassVar[str] = "attention-fusion"
    default_layers: ClassVar[str] = "all"
    learning_rate: ClassVar[float] = 1e-2
    group_rates: ClassVar[Mapping[str, float | None]] = {"mixing": None}
    trains: ClassVar[Trains] = "mixture"
    source: ClassVar[str] = "attention fusion, eq. 1-2"
    summary: ClassVar[str] = "one learned query attends over the layers of each word"
    formula: ClassVar[str] = "sum_i softmax_i(q . z_i) z_i"

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; q starts at 0, nothing is drawn."""
        return AttentionFusionHead(layers, dim)


class AttentionFusionHead(RowHead):
    """Module of `AttentionFusion`."""

    per_row = True
    additive = True

    def __init__(self, layers: tuple[int, ...], dim: int) -> None:
        """Create the query."""
        super().__init__(layers, dim)
        self.q = nn.Parameter(torch.zeros(dim))

    def fuse(self, z: Layers) -> Fused:
        """Return the sum of the layers, weighted row by row."""
        return row_sum(row_scores(self.q, z).softmax(0), z)

    def parts(self, z: Layers, weight: OutputMap | None) -> Parts:
        """Return softmax_i(q . z_i) z_i, row by row."""
        return row_scores(self.q, z).softmax(0).unsqueeze(2) * mapped(z, weight)

    def weigh(self, z: Layers | None) -> LayerWeights:
        """Return the attention of each row, and its scores as the raw weights."""
        assert z is not None
        raw = row_scores(self.q, z).t()
        return LayerWeights(self.layers, raw.softmax(-1), raw)

    @torch.no_grad()
    def load_mixture(self, values: Float[Tensor, " values"]) -> None:
        """Take q."""
        self.q.copy_(values)

    def parameter_groups(self) -> Groups:
        """Return q as ``mixing``."""
        return divide(self, mixing=(self.q,))
