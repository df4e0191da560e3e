"""Token heads: averages and maxima of the tokens by channel, and those that learn where to look."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from probekit.base.numbers import linear_layer
from probekit.errors import OptionError
from probekit.probe.token_heads.contract import (
    Bounds,
    Rows,
    TokenHeadSpec,
    TokenPool,
    Tokens,
    owners,
    segment_max,
    segment_softmax,
    segment_sum,
)


class _FixedPool(TokenPool):
    def __init__(self, dim: int, head: "_Fixed") -> None:
        super().__init__(dim)
        self.head = head

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        return self.head.pool(z, bounds)


class _Fixed(TokenHeadSpec):
    """A token head without parameters: its options say all of it."""

    parts: ClassVar[int] = 1
    """Vectors as wide as the states, side by side in a row."""

    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module, which draws nothing."""
        return _FixedPool(self.parts * dim, self)

    @abstractmethod
    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text, all of which have tokens."""


@dataclass(frozen=True, kw_only=True)
class MeanTokens(_Fixed):
    """The average of the tokens: what the array ``mean`` holds."""

    name: ClassVar[str] = "mean"
    source: ClassVar[str] = "-"
    summary: ClassVar[str] = "the average of all tokens"
    formula: ClassVar[str] = "1/n sum_t z_t"

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text, all of which have tokens."""
        return segment_sum(z, bounds) / bounds.diff()[:, None]


@dataclass(frozen=True, kw_only=True)
class LastToken(_Fixed):
    """The last of the tokens."""

    name: ClassVar[str] = "last"
    source: ClassVar[str] = "-"
    summary: ClassVar[str] = "the last token"
    formula: ClassVar[str] = "z_n"

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text, all of which have tokens."""
        return z.index_select(1, bounds[1:] - 1)


@dataclass(frozen=True, kw_only=True)
class EndTokens(_Fixed):
    """The first and the last of the tokens, side by side."""

    name: ClassVar[str] = "ends"
    source: ClassVar[str] = "Lee et al. 2017, without attention"
    summary: ClassVar[str] = "the first and the last token, side by side"
    formula: ClassVar[str] = "[z_1; z_n]"
    parts: ClassVar[int] = 2

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text, all of which have tokens."""
        return torch.cat([z.index_select(1, at) for at in (bounds[:-1], bounds[1:] - 1)], 2)


@dataclass(frozen=True, kw_only=True)
class MaxTokens(_Fixed):
    """The largest value of each channel."""

    name: ClassVar[str] = "max"
    source: ClassVar[str] = "Collobert and Weston 2008"
    summary: ClassVar[str] = "the largest value of each channel over the tokens"
    formula: ClassVar[str] = "max_t z_t"

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text, all of which have tokens."""
        return segment_max(z, bounds)


@dataclass(frozen=True, kw_only=True)
class SoftmaxTokens(_Fixed):
    """Between the average (a high temperature) and the maximum of each channel (a low one).

    Attributes:
        temperature: in units of the channels.
    """

    temperature: float = 1.0

    name: ClassVar[str] = "softmax"
    source: ClassVar[str] = "-"
    summary: ClassVar[str] = "a smooth maximum of each channel over the tokens"
    formula: ClassVar[str] = "sum_t softmax_t(z_t / temperature) z_t"

    def __post_init__(self) -> None:
        """Check the temperature."""
        if self.temperature <= 0:
            raise OptionError(f"softmax: a temperature is above 0; found {self.temperature}.")

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text, all of which have tokens."""
        return segment_sum(segment_softmax(z / self.temperature, bounds) * z, bounds)


@dataclass(frozen=True, kw_only=True)
class EMA(_Fixed):
    """The largest value of each channel's exponential moving average, which begins at 0.

    Attributes:
        alpha: share of a token in the average behind it.
    """

    alpha: float = 0.5

    name: ClassVar[str] = "ema"
    source: ClassVar[str] = "exponential moving average: arXiv 2601.11516"
    summary: ClassVar[str] = "the largest exponential moving average, by channel"
    formula: ClassVar[str] = "max_t e_t, where e_t = (1 - alpha) e_(t-1) + alpha z_t and e_0 = 0"

    def __post_init__(self) -> None:
        """Check the share."""
        if not 0 < self.alpha <= 1:
            raise OptionError(f"ema: alpha is above 0 and at most 1; found {self.alpha}.")

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text, all of which have tokens."""
        # e_t sums (1 - alpha)^k alpha z_(t-k) over the tokens up to t. Of the last 1, 2, 4, ...
        # of them it is, with twice as many each time, the sum of as many and of those before.
        place = torch.arange(z.shape[1], device=z.device) - bounds[:-1][owners(bounds)]
        average, count = self.alpha * z, 1
        while count < int(bounds.diff().max()):
            share = (1 - self.alpha) ** count * (place[count:] >= count).to(z.dtype)
            before = average[:, :-count] * share[:, None]
            average = torch.cat([average[:, :count], average[:, count:] + before], 1)
            count *= 2
        return segment_max(average, bounds)


@dataclass(frozen=True, kw_only=True)
class RollingMax(_Fixed):
    """The largest average of some neighbouring tokens, channel by channel.

    Attributes:
        window: how many; at the beginning of a text those that there are.
    """

    window: int = 10

    name: ClassVar[str] = "rolling-max"
    source: ClassVar[str] = "max of rolling means, without attention: arXiv 2601.11516"
    summary: ClassVar[str] = "the largest average of `window` neighbouring tokens, by channel"
    formula: ClassVar[str] = "max_t 1/w (z_(t-w+1) + ... + z_t), w = min(window, t)"

    def __post_init__(self) -> None:
        """Check the window."""
        if self.window < 1:
            raise OptionError(f"rolling-max: a window is 1 or more; found {self.window}.")

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text, all of which have tokens."""
        stops = torch.arange(z.shape[1], device=z.device) + 1
        starts = torch.maximum(stops - self.window, bounds[:-1][owners(bounds)])
        # in double precision: of a long text the sums are much larger than their differences
        sums = torch.cat([z.new_zeros(len(z), 1, z.shape[2]), z], 1).double().cumsum(1)
        totals = sums.index_select(1, stops) - sums.index_select(1, starts)
        return segment_max((totals / (stops - starts)[:, None]).to(z.dtype), bounds)


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

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
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

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        return segment_max(torch.baddbmm(self.b, z, self.v.mT), bounds)
