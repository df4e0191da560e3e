"""One block of rows as every member wants it: normalised once per kind, cut to its layers."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.probe.heads import HeadInput
from probekit.probe.normalization import Normalization
from probekit.train.token_rows import TokenPlan

_ALIGNMENT = 64


class Inputs:
    """Rows of the union of layers, from which each member takes what it reads.

    Members that read the same layers share one tensor. It has the same values, strides and
    alignment whichever other members there are, so that a member's numbers do not depend on them.
    """

    def __init__(
        self,
        z: Float[Tensor, "layers rows dim"],
        layers: Sequence[int],
        tokens: TokenPlan | None = None,
    ) -> None:
        """Keep the rows.

        Args:
            z: rows, or the subwords of whole windows.
            layers: the numbers along axis 0.
            tokens: says of subwords which windows they form and which rows they make.
        """
        self._z = z
        self._layers = tuple(layers)
        self._tokens = tokens
        self._treated: dict[Normalization, Tensor] = {}
        self._cut: dict[tuple[Normalization, tuple[int, ...]], Tensor] = {}

    def of(self, normalization: Normalization, layers: tuple[int, ...]) -> HeadInput:
        """Return the treated rows of some layers, layer-major in memory, or the subwords of one."""
        z = self._chosen(normalization, layers)
        return z.transpose(0, 1) if self._tokens is None else self._tokens.states(z[0])

    def _chosen(
        self, normalization: Normalization, layers: tuple[int, ...]
    ) -> Float[Tensor, "chosen rows dim"]:
        key = (normalization, layers)
        if key not in self._cut:
            treated = self._treated.get(normalization)
            if treated is None:
                z = select(self._z, self._layers, normalization.layers)
                treated = normalization(z.transpose(0, 1)).transpose(0, 1)
                self._treated[normalization] = treated
            self._cut[key] = select(treated, normalization.layers, layers)
        return self._cut[key]


def select(
    z: Float[Tensor, "layers rows dim"], have: tuple[int, ...], wanted: tuple[int, ...]
) -> Float[Tensor, "wanted rows dim"]:
    """Return some layers; a view where they lie side by side, else a copy."""
    places = [have.index(layer) for layer in wanted]
    first, last = places[0], places[-1]
    if places == list(range(first, last + 1)):
        part = z[first : last + 1]
        # Products may take another path, and round differently, for unaligned memory.
        return part if part.data_ptr() % _ALIGNMENT == 0 else part.clone()
    return z.index_select(0, torch.tensor(places, device=z.device))
