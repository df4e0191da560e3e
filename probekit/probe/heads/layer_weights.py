"""How much each layer counts in a head's output."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class LayerWeights:
    """How much each layer counts in a head's output.

    Attributes:
        layers: layer numbers, one per column.
        weights: shape (layers,) when the head gives every row the same weights, else
            (rows, layers); they sum to 1 over the layers (after softmax, where there is one).
        raw: the same before softmax, or None for a head without one.
    """

    layers: tuple[int, ...]
    weights: Float[Tensor, "*rows layers"]
    raw: Float[Tensor, "*rows layers"] | None = None

    def by_layer(self) -> dict[int, float]:
        """Return ``{layer: weight}``, averaged over the rows where weights differ by row."""
        return self._average(self.weights)

    def raw_by_layer(self) -> dict[int, float] | None:
        """Return ``{layer: raw weight}`` like `by_layer`, or None for a head without softmax."""
        return None if self.raw is None else self._average(self.raw)

    def select(self, rows: Tensor) -> "LayerWeights":
        """Return the weights of some rows (a mask or indices); unchanged when all rows agree."""
        if self.weights.ndim == 1:
            return self
        raw = None if self.raw is None else self.raw[rows]
        return LayerWeights(self.layers, self.weights[rows], raw)

    @staticmethod
    def concatenate(parts: Sequence["LayerWeights"]) -> "LayerWeights":
        """Join the weights of consecutive batches of one head; the rows keep their order."""
        first = parts[0]
        if first.weights.ndim == 1:
            return first
        raws = [part.raw for part in parts if part.raw is not None]
        weights = torch.cat([part.weights for part in parts])
        return LayerWeights(first.layers, weights, torch.cat(raws) if raws else None)

    def _average(self, values: Tensor) -> dict[int, float]:
        means = values.double().reshape(-1, len(self.layers)).mean(0)
        return dict(zip(self.layers, means.tolist(), strict=True))
