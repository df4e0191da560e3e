"""Token heads without parameters: averages and maxima of the tokens, channel by channel."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.errors import OptionError
from probekit.probe.token_heads.contract import (
    TokenHeadSpec,
    TokenPool,
    owners,
    segment_max,
    segment_softmax,
    segment_sum,
)

Tokens = Float[Tensor, "layers tokens dim"]
Bounds = Int64[Tensor, " bounds"]
Rows = Float[Tensor, "layers texts dim"]


@dataclass(frozen=True, kw_only=True)
class MeanTokens(TokenHeadSpec):
    """The average of the tokens: what the array ``mean`` holds."""

    name: ClassVar[str] = "mean"
    source: ClassVar[str] = "-"
    summary: ClassVar[str] = "the average of all tokens"
    formula: ClassVar[str] = "1/n sum_t z_t"

    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module, which draws nothing."""
        return _Mean(dim)


class _Mean(TokenPool):
    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        return segment_sum(z, bounds) / bounds.diff()[:, None]


@dataclass(frozen=True, kw_only=True)
class LastToken(TokenHeadSpec):
    """The last of the tokens."""

    name: ClassVar[str] = "last"
    source: ClassVar[str] = "-"
    summary: ClassVar[str] = "the last token"
    formula: ClassVar[str] = "z_n"

    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module, which draws nothing."""
        return _Last(dim)


class _Last(TokenPool):
    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        return z.index_select(1, bounds[1:] - 1)


@dataclass(frozen=True, kw_only=True)
class MaxTokens(TokenHeadSpec):
    """The largest value of each channel."""

    name: ClassVar[str] = "max"
    source: ClassVar[str] = "Collobert and Weston 2008"
    summary: ClassVar[str] = "the largest value of each channel over the tokens"
    formula: ClassVar[str] = "max_t z_t"

    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module, which draws nothing."""
        return _Max(dim)


class _Max(TokenPool):
    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        return segment_max(z, bounds)


@dataclass(frozen=True, kw_only=True)
class SoftmaxTokens(TokenHeadSpec):
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

    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module, which draws nothing."""
        return _Softmax(dim, self.temperature)


class _Softmax(TokenPool):
    def __init__(self, dim: int, temperature: float) -> None:
        super().__init__(dim)
        self.temperature = temperature

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        return segment_sum(segment_softmax(z / self.temperature, bounds) * z, bounds)


@dataclass(frozen=True, kw_only=True)
class ExponentialAverage(TokenHeadSpec):
    """What an exponential moving average, begun at the first token, is at the last one.

    Attributes:
        decay: what the average keeps of itself at each token.
    """

    decay: float = 0.9

    name: ClassVar[str] = "exponential"
    source: ClassVar[str] = "-"
    summary: ClassVar[str] = "an exponential moving average, at the last token"
    formula: ClassVar[str] = "e_n, where e_t = decay e_(t-1) + (1 - decay) z_t and e_1 = z_1"

    def __post_init__(self) -> None:
        """Check the decay."""
        if not 0 <= self.decay < 1:
            raise OptionError(f"exponential: a decay is from 0 to below 1; found {self.decay}.")

    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module, which draws nothing."""
        return _Exponential(dim, self.decay)


class _Exponential(TokenPool):
    def __init__(self, dim: int, decay: float) -> None:
        super().__init__(dim)
        self.decay = decay

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        # of three tokens decay^2, (1 - decay) decay and 1 - decay
        after = bounds[1:][owners(bounds)] - 1 - torch.arange(z.shape[1], device=z.device)
        share = torch.full_like(after, 1 - self.decay, dtype=z.dtype)
        share[bounds[:-1]] = 1.0
        return segment_sum(z * (share * self.decay ** after.to(z.dtype))[:, None], bounds)


@dataclass(frozen=True, kw_only=True)
class RollingMax(TokenHeadSpec):
    """The largest average of some neighbouring tokens, channel by channel.

    Attributes:
        window: how many; all tokens of a text that has fewer.
    """

    window: int = 10

    name: ClassVar[str] = "rolling-max"
    source: ClassVar[str] = "max of rolling means, without attention: arXiv 2601.11516"
    summary: ClassVar[str] = "the largest average of `window` neighbouring tokens, by channel"
    formula: ClassVar[str] = "max_t 1/window (z_t + ... + z_(t+window-1))"

    def __post_init__(self) -> None:
        """Check the window."""
        if self.window < 1:
            raise OptionError(f"rolling-max: a window is 1 or more; found {self.window}.")

    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module, which draws nothing."""
        return _RollingMax(dim, self.window)


class _RollingMax(TokenPool):
    def __init__(self, dim: int, window: int) -> None:
        super().__init__(dim)
        self.window = window

    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        # Of a window of 3, a text of 2 tokens and one of 4 (bounds 0 2 6) have 1 and 2 averages:
        #   sizes   2 3      starts  0 | 2 3      ends  2 | 5 6      rows  0 1 3
        sizes = bounds.diff().clamp(max=self.window)
        counts = bounds.diff() - sizes + 1
        rows = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        of = owners(rows)
        starts = bounds[:-1][of] + torch.arange(len(of), device=z.device) - rows[:-1][of]
        # in double precision: of a long text the sums are much larger than their differences
        sums = torch.cat([z.new_zeros(len(z), 1, z.shape[2]), z], 1).double().cumsum(1)
        totals = sums.index_select(1, starts + sizes[of]) - sums.index_select(1, starts)
        return segment_max((totals / sizes[of][:, None]).to(z.dtype), rows)
