"""Token heads that learn where to look: attention, and the maximum of learned scores."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.base.numbers import linear_layer
from probekit.errors import OptionError
from probekit.probe.token_heads.contract import (
    TokenHeadSpec,
    TokenPool,
    segment_max,
    segment_softmax,
    segment_sum,
)


@dataclass(frozen=True, kw_only=True)
class _Trained(TokenHeadSpec):
    heads: int = 1

    trains: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check how many heads there are."""
        if self.heads < 1:
            raise OptionError(f"{self.name}: it has 1 head or more; found {self.heads}.")


@dataclass(frozen=True, kw_only=True)
class AttentionTokens(_Trained):
    """Averages of the tokens, each weighted by a query; of each layer its own queries.

    A query starts at 0, where its average is that of all tokens.

    Attributes:
        heads: how many queries; their averages lie side by side.
    """

    heads: int = 1

    name: ClassVar[str] = "attention"
    source: ClassVar[str] = "attention probe: arXiv 2601.11516, 2601.13288"
    summary: ClassVar[str] = "an average that a learned query weighs, or several of them"
    formula: ClassVar[str] = "sum_t softmax_t(q_h . z_t / sqrt(d)) z_t for each h"

    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module, which draws nothing."""
        return _Attention(n_layers, dim, self.heads)


class _Attention(TokenPool):
    def __init__(self, n_layers: int, dim: int, heads: int) -> None:
        super().__init__(dim)
        self.width = heads * dim
        self.q = nn.Parameter(torch.zeros(n_layers, heads, dim))

    def pool(
        self, z: Float[Tensor, "layers tokens dim"], bounds: Int64[Tensor, " bounds"]
    ) -> Float[Tensor, "layers texts width"]:
        weights = segment_softmax(torch.bmm(z, self.q.mT) / z.shape[2] ** 0.5, bounds)
        averages = [segment_sum(z * weights[..., h, None], bounds) for h in range(self.q.shape[1])]
        return torch.cat(averages, 2)


@dataclass(frozen=True, kw_only=True)
class MultiMax(_Trained):
    """The largest of each of some scores that every token has, of each layer its own.

    Attributes:
        heads: how many scores; a row has one value for each.
    """

    heads: int = 10

    name: ClassVar[str] = "multimax"
    source: ClassVar[str] = "MultiMax without its MLP: arXiv 2601.11516"
    summary: ClassVar[str] = "the largest over the tokens of each of some learned scores"
    formula: ClassVar[str] = "max_t (v_h . z_t + b_h) for each h"

    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module, and draw the directions of the scores."""
        return _MultiMax(n_layers, dim, self.heads, generator)


class _MultiMax(TokenPool):
    def __init__(self, n_layers: int, dim: int, heads: int, generator: torch.Generator) -> None:
        super().__init__(dim)
        self.width = heads
        drawn = [linear_layer(dim, heads, generator) for _ in range(n_layers)]
        self.v = nn.Parameter(torch.stack([layer.weight.detach() for layer in drawn]))
        self.b = nn.Parameter(torch.zeros(n_layers, 1, heads))

    def pool(
        self, z: Float[Tensor, "layers tokens dim"], bounds: Int64[Tensor, " bounds"]
    ) -> Float[Tensor, "layers texts width"]:
        return segment_max(torch.baddbmm(self.b, z, self.v.mT), bounds)
