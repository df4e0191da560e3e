"""A head over the layers together with a token head that is trained with it, in either order."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.errors import OptionError
from probekit.probe.heads.contract import FusionHead, HeadInput, HeadSpec, LayerWeights, Reads
from probekit.probe.heads.token_inputs import TextTokens
from probekit.probe.model_parts import WEIGHTS, Groups
from probekit.probe.token_heads.contract import (
    Order,
    PairPool,
    TokenHeadSpec,
    TokenPool,
    segment_sum,
)

_OF_HEAD = (
    *("name", "default_layers", "learning_rate", "group_rates", "source", "summary", "formula"),
    *("recurrent", "default_decoder"),
)
"""What a head's class says, and with it each of its specs."""


@dataclass(frozen=True, kw_only=True)
class OverTokens(HeadSpec):
    """A head and a token head: the tokens of texts in, one vector per text out.

    Attributes:
        head: the head over the layers, whose name and rates it has.
        token_head: what makes a row of tokens, before that head or behind it.
    """

    head: HeadSpec
    token_head: TokenHeadSpec

    reads: ClassVar[Reads] = "texts"

    def __post_init__(self) -> None:
        """Refuse a head that reads tokens itself.

        Raises:
            OptionError: it does.
        """
        check_reads_rows(self.head, self.token_head)
        for name in _OF_HEAD:
            object.__setattr__(self, name, getattr(self.head, name))

    def to_json(self) -> dict[str, Any]:
        """Return the form of the head, with that of the token head."""
        return {**self.head.to_json(), "token_head": self.token_head.to_json()}

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> FusionHead:
        """Create both modules, the one that comes first first."""
        order = self.token_head.order
        if order == "layers-first":
            head = self.head.build(layers, dim, generator)
            pool = self.token_head.module(1, head.width, generator)
            return OverTokensHead(head, pool, order, dim)
        pool = self.token_head.module(len(layers), dim, generator)
        return OverTokensHead(self.head.build(layers, pool.width, generator), pool, order, dim)


class OverTokensHead(FusionHead):
    """Module of `OverTokens`."""

    reads = "texts"

    def __init__(
        self, head: FusionHead, pool: TokenPool | PairPool, order: Order, dim: int
    ) -> None:
        """Join the two."""
        super().__init__(head.layers, dim)
        self.head, self.pool, self.order = head, pool, order
        self.width = pool.width if order == "layers-first" else head.width
        self.per_row = head.per_row  # type: ignore[misc]  # as that of a class is

    def forward(self, z: HeadInput) -> Float[Tensor, "texts width"]:
        """Return h, one vector per text.

        Raises:
            OptionError: z is not the tokens of texts, or has other layers or another width.
        """
        z = self._tokens(z)
        if self.order == "tokens-first":
            return self.head(self._rows(z))
        fused: Tensor = self.pool(self.head(z.states)[None], z.bounds)
        return fused[0]

    def layer_weights(self, z: HeadInput | None = None) -> LayerWeights:
        """Return the weight of each layer; where tokens differ, their average over each text."""
        if not self.per_row or z is None:
            return self.head.layer_weights(None)
        tokens = self._tokens(z)
        with torch.no_grad():
            if self.order == "tokens-first":
                return self.head.layer_weights(self._rows(tokens))
            of_tokens = self.head.layer_weights(tokens.states)
        count = tokens.bounds.diff().clamp(min=1)[:, None]
        weights, raw = (
            None if part is None else segment_sum(part[None], tokens.bounds)[0] / count
            for part in (of_tokens.weights, of_tokens.raw)
        )
        assert weights is not None
        weights[tokens.bounds.diff() == 0] = 1 / len(self.layers)  # of a text without tokens
        return LayerWeights(self.layers, weights, raw)

    def parameter_groups(self) -> Groups:
        """Return those of the head, and the values of the token head among ``weights``."""
        groups = dict(self.head.parameter_groups())
        return {**groups, WEIGHTS: (*groups.get(WEIGHTS, ()), *self.pool.parameters())}

    def _rows(self, z: TextTokens) -> Float[Tensor, "texts layers width"]:
        pooled: Tensor = self.pool(z.states.transpose(0, 1), z.bounds)
        return pooled.transpose(0, 1)

    def _tokens(self, z: HeadInput) -> TextTokens:
        if not isinstance(z, TextTokens):
            raise OptionError("this head reads the tokens of texts; found other rows.")
        return z


def check_reads_rows(head: HeadSpec, token_head: TokenHeadSpec) -> None:
    """Refuse a head that has no use for the rows of a token head.

    Raises:
        OptionError: it reads tokens itself.
    """
    if head.reads != "rows":
        raise OptionError(
            f"head {head.name} reads the tokens of texts itself: leave --token-head "
            f"{token_head.name} out, or choose another head."
        )
