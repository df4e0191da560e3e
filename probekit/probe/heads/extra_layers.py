"""Extra layers: new transformer blocks of the backbone's own kind on top of the frozen ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.errors import OptionError
from probekit.probe.heads.blocks import build_blocks, essential
from probekit.probe.heads.contract import BackboneFacts, HeadSpec, Reads, TokenHead


@dataclass(frozen=True, kw_only=True)
class ExtraLayers(HeadSpec):
    """h = the word's row of n new blocks, run over the last layer's subwords of its window.

    The blocks are trained without dropout.

    Attributes:
        n: number of new blocks; None is the paper's 1 for up to 12 blocks, 2 above.
        config: the backbone's configuration; `bind` fills it in.
    """

    n: int | None = field(default=None, metadata={"unset": "(1 up to 12 blocks, 2 beyond)"})
    config: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)

    name: ClassVar[str] = "extra-layers"
    default_layers: ClassVar[str] = "-1"
    learning_rate: ClassVar[float] = 1e-3
    source: ClassVar[str] = 'DWAtt, Table 2 "Base+n" and R26'
    summary: ClassVar[str] = "new transformer blocks over the last layer's subwords"
    formula: ClassVar[str] = "block_n(... block_1(z_L))"
    reads: ClassVar[Reads] = "tokens"

    def __post_init__(self) -> None:
        """Check the number of blocks."""
        if self.n is not None and self.n < 1:
            raise OptionError(f"extra-layers: n must be 1 or more, found {self.n}.")

    def bind(self, facts: BackboneFacts) -> Self:
        """Return the spec with the backbone's configuration, and the paper's n if none is set."""
        n = self.n if self.n is not None else 1 if facts.n_blocks <= 12 else 2
        return replace(self, n=n, config=essential(facts.config))

    def build(
        self, layers: tuple[int, ...], dim: int, generator: torch.Generator
    ) -> "ExtraLayersHead":
        """Create the module; the blocks start as transformers would start the backbone's own.

        Raises:
            OptionError: the spec is not bound to a backbone, or the backbone's blocks cannot stand
                alone.
        """
        if self.n is None or self.config is None:
            raise OptionError(
                "extra-layers: the blocks are those of a backbone; call bind(facts) before build."
            )
        return ExtraLayersHead(layers, dim, self.n, self.config, generator)


class ExtraLayersHead(TokenHead):
    """Module of `ExtraLayers`."""

    def __init__(
        self,
        layers: tuple[int, ...],
        dim: int,
        n: int,
        config: Mapping[str, Any],
        generator: torch.Generator,
    ) -> None:
        """Build the blocks."""
        super().__init__(layers, dim)
        self.blocks = build_blocks(config, n, generator)
        if self.blocks.dim != dim:
            raise OptionError(
                f"extra-layers: the states have width {dim}, but the backbone's configuration "
                f"says {self.blocks.dim}."
            )

    def transform(
        self, hidden: Float[Tensor, "T dim"], lengths: Int64[Tensor, " windows"]
    ) -> Float[Tensor, "T width"]:
        """Return the blocks' states of every subword; products run in the autocast dtype."""
        return self.blocks(hidden, lengths)
