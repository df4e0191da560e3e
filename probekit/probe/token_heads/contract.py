"""What every token head promises: the tokens of a text in, one row for each layer out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.base.tensors import full

Tokens = Float[Tensor, "layers tokens dim"]
"""States of all texts, one text after the other."""

Bounds = Int64[Tensor, " bounds"]
"""Text i has the tokens ``bounds[i]`` to ``bounds[i + 1]`` (excluded)."""

Rows = Float[Tensor, "layers texts width"]

Order = Literal["tokens-first", "layers-first"]
Pair = Literal["concat", "product", "difference"]


class TokenPool(nn.Module, ABC):
    """Turns the tokens of texts into one row of each layer.

    Attributes:
        width: channels of a row.
    """

    def __init__(self, dim: int) -> None:
        """Keep the width of a row."""
        super().__init__()
        self.width = dim

    def forward(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text in float32; that of a text without tokens is zeros.

        Args:
            z: states of all texts, one text after the other.
            bounds: text i has the tokens ``bounds[i]`` to ``bounds[i + 1]`` (excluded).
        """
        z, some = full(z), bounds.diff() > 0
        if bool(some.all()) and len(some):
            return self.pool(z, bounds)
        out = z.new_zeros(len(z), len(some), self.width)
        if bool(some.any()):
            out[:, some] = self.pool(z, torch.cat([bounds[:1], bounds[1:][some]]))
        return out

    @abstractmethod
    def pool(self, z: Tokens, bounds: Bounds) -> Rows:
        """Return a row of each text, all of which have tokens."""


class PairPool(nn.Module):
    """Turns both spans of pairs into one row of each pair, by a token head that reads either.

    Attributes:
        width: channels of a row.
    """

    def __init__(self, pool: TokenPool, pair: Pair) -> None:
        """Keep what reads a span, and how two rows are joined."""
        super().__init__()
        self.each, self.pair = pool, pair
        self.width = pool.width * (2 if pair == "concat" else 1)

    def forward(
        self, z: Float[Tensor, "layers tokens dim"], bounds: Int64[Tensor, " bounds"]
    ) -> Float[Tensor, "layers pairs width"]:
        """Return a row of each pair, whose spans follow each other in ``bounds``."""
        rows: Tensor = self.each(z, bounds)
        first, second = rows[:, ::2], rows[:, 1::2]
        if self.pair == "concat":
            return torch.cat([first, second], 2)
        return first * second if self.pair == "product" else first - second


@dataclass(frozen=True, kw_only=True)
class TokenHeadSpec(ABC):
    """A token head's name and options: a value that builds the module.

    Attributes:
        order: ``tokens-first`` makes a row of each layer, which the head over layers fuses;
            ``layers-first`` lets that head fuse the layers of each token.
        pair: how the rows of a pair of spans become one: side by side (``concat``, which pairs
            have unless told otherwise), their product, or the first less the second; None of
            texts and single spans.
        name: key in ``TOKEN_HEADS``.
        trains: whether its module has parameters.
        source: where it is from.
        summary: one line for people.
        formula: the row in one line, of the states z_t of a text's n tokens.
    """

    order: Order = "tokens-first"
    pair: Pair | None = field(default=None, metadata={"unset": "(concat of pairs)"})

    name: ClassVar[str]
    trains: ClassVar[bool] = False
    source: ClassVar[str]
    summary: ClassVar[str]
    formula: ClassVar[str]

    @property
    def fixed(self) -> bool:
        """Whether its rows are the same before any training, so that a solver can read them."""
        return not self.trains and self.order == "tokens-first"

    def to_json(self) -> Mapping[str, Any]:
        """Return the name and the options; ``token_head_from_json`` is the inverse."""
        values = asdict(self)
        if self.pair is None:  # left out, so that runs from before there were pairs keep their keys
            del values["pair"]
        return {"name": self.name, **values}

    def module(self, n_layers: int, dim: int, generator: torch.Generator) -> "TokenPool | PairPool":
        """Create what makes rows of texts or spans, or of pairs of these; args as for `build`."""
        pool = self.build(n_layers, dim, generator)
        return pool if self.pair is None else PairPool(pool, self.pair)

    def row_width(self, dim: int) -> int:
        """Return the width of rows that are made before training; of others that of the states."""
        return self.module(1, dim, torch.Generator()).width if self.fixed else dim

    @abstractmethod
    def build(self, n_layers: int, dim: int, generator: torch.Generator) -> TokenPool:
        """Create the module.

        Args:
            n_layers: how many layers it makes rows of, each on its own.
            dim: width of the states.
            generator: the only source of randomness, on the CPU.
        """


def owners(bounds: Bounds) -> Int64[Tensor, " tokens"]:
    """Return the text of each token."""
    texts = torch.arange(len(bounds) - 1, device=bounds.device)
    return texts.repeat_interleave(bounds.diff())


def segment_sum(values: Tokens, bounds: Bounds) -> Rows:
    """Return the sums over the tokens of each text."""
    return _reduced(values, bounds, "sum")


def segment_max(values: Tokens, bounds: Bounds) -> Rows:
    """Return the maximum of each channel over the tokens of each text, all of which have some."""
    return _reduced(values, bounds, "max")


def segment_softmax(scores: Tokens, bounds: Bounds) -> Tokens:
    """Return the softmax of each channel over the tokens of each text."""
    of = owners(bounds)
    largest = segment_max(scores.detach(), bounds)
    powers = (scores - largest.index_select(1, of)).exp()
    return powers / segment_sum(powers, bounds).index_select(1, of)


def _reduced(values: Tokens, bounds: Bounds, how: Literal["sum", "max"]) -> Rows:
    lengths = bounds.diff()
    layers = [torch.segment_reduce(layer, how, lengths=lengths, axis=0) for layer in values]
    return torch.stack(layers)
