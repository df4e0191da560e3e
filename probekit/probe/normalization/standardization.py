"""Standardisation: every channel of every layer with mean 0 and deviation 1 over the train rows."""

from collections.abc import Mapping
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.base.tensors import full
from probekit.errors import OptionError
from probekit.probe.normalization.contract import Blocks, Normalization, RowFacts


class Standardization(Normalization):
    """Mean 0 and deviation 1 per layer and channel over the train rows; see `divisors`."""

    name = "standardize"
    fitted = True
    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        layers: tuple[int, ...],
        mean: Float[Tensor, "layers dim"],
        scale: Float[Tensor, "layers dim"],
    ) -> None:
        """Keep the mean and 1 / deviation in float32."""
        super().__init__(layers)
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", scale.float())

    @classmethod
    def fit(cls, blocks: Blocks, layers: tuple[int, ...], facts: RowFacts) -> Self:
        """Return the standardisation of some rows.

        Raises:
            OptionError: there is no row.
        """
        moments = Moments()
        for block in blocks:
            moments.add(block)
        if moments.count == 0:
            raise OptionError("--normalize standardize: there is no train row to fit it on.")
        mean, deviation = moments.result()
        return cls(layers, mean, divisors(deviation).reciprocal())

    def forward(self, z: Float[Tensor, "rows layers dim"]) -> Float[Tensor, "rows layers dim"]:
        """Return the standardised rows."""
        z = full(z.transpose(0, 1))
        shift = -self.mean * self.scale
        return torch.addcmul(shift.unsqueeze(1), z, self.scale.unsqueeze(1)).transpose(0, 1)

    @property
    def affine(self) -> tuple[Float[Tensor, "layers dim"], Float[Tensor, "layers dim"]]:
        """Scale 1 / deviation and shift -mean / deviation."""
        return self.scale, -self.mean * self.scale

    def cut(self, layers: tuple[int, ...]) -> Self:
        """Return the standardisation of some of its layers alone."""
        places = [self.layers.index(layer) for layer in layers]
        return type(self)(layers, self.mean[places], self.scale[places])

    @classmethod
    def from_json(cls, value: Mapping[str, Any], layers: tuple[int, ...], dim: int) -> Self:
        """Return one that changes nothing, for the saved numbers to be loaded into."""
        return cls(layers, torch.zeros(len(layers), dim), torch.ones(len(layers), dim))


def divisors(deviation: Float[Tensor, "*layers dim"]) -> Float[Tensor, "*layers dim"]:
    """Return what the channels of rows are divided by: their deviations, where they vary.

    A channel is dead when its deviation is below 1e-4 of its layer's median. It is divided by that
    median instead, so that its noise is not blown up.
    """
    typical = deviation.where(deviation > 0, torch.nan).nanmedian(-1, keepdim=True).values
    typical = typical.nan_to_num(1.0)  # of a layer whose channels are all constant
    return torch.where(deviation > 1e-4 * typical, deviation, typical)


class Moments:
    """Mean and deviation per layer and channel, in one pass over blocks of rows.

    Merges block after block (Chan, Golub and LeVeque 1979). Inside a block squares are summed
    around the block's own mean in float32; blocks are merged in float64. So rows with a large mean
    and a small deviation keep their digits, and no block is copied to float64.
    """

    def __init__(self) -> None:
        """Start without rows."""
        self.count = 0
        self._mean: Tensor | None = None
        self._squares: Tensor | None = None

    def add(self, block: Float[Tensor, "rows layers dim"]) -> None:
        """Take in some rows, in any floating dtype; an empty block changes nothing."""
        rows = block.shape[0]
        if rows == 0:
            return
        z = full(block)
        about = z.mean(0)
        centred = z - about
        # The corrected two-pass sum: rest is what rounding left of the mean.
        rest = centred.mean(0).double()
        mean = about.double() + rest
        squares = centred.square_().sum(0).double() - rows * rest.square()
        if self._mean is None or self._squares is None:
            self.count, self._mean, self._squares = rows, mean, squares
            return
        # Three rows of mean 1 and one of 5: the mean moves by 4 * 1/4, and the squares about it
        # grow by 16 * 3 * 1 / 4 = 12, as 1 1 1 5 have 3 * 1 + 9 about their mean 2.
        total = self.count + rows
        shift = mean - self._mean
        self._squares = self._squares + squares + shift.square() * (self.count * rows / total)
        self._mean = self._mean + shift * (rows / total)
        self.count = total

    def result(self) -> tuple[Float[Tensor, "layers dim"], Float[Tensor, "layers dim"]]:
        """Return mean and population deviation in float64; call after at least one row."""
        assert self._mean is not None and self._squares is not None
        return self._mean, (self._squares.clamp(min=0) / self.count).sqrt()
