"""What each layer of a sum of maps contributes to the logits: covariances, block by block."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.base.numbers.precision import full, no_autocast
from probekit.probe.heads.contract import LayerWeights
from probekit.train.probe import Probe

_AT_ONCE = 1 << 22  # values of contributions that are held at a time


class Contributions:
    """Shares of the logits' variance that the layers of h = sum_i W_i z_i + b bring about.

    The contribution of layer i to the logits of a row is W_dec W_i z_i, and its share is
    Cov(contribution of layer i, logits) / Var(logits), summed over the classes, with the mean over
    the classes taken out of every row (no prediction depends on it; a regression has but one
    output) and the mean over the rows out of every class. The shares sum to 1; one is negative
    where a layer speaks against the others.

    A decoder that is no affine map (an MLP, say) has no such parts. The shares are then those of
    W_i z_i in h itself, with its channels in the place of the classes.

    Blocks are added one by one, in float64: each has its own means, and what the means of two
    differ by is added as Chan, Golub and LeVeque (1983) do.
    """

    def __init__(self, probe: Probe) -> None:
        """Fold the decoder into the maps, where it is affine.

        The probe's head must be one that has ``layer_maps``.
        """
        affine = probe.decoder.affine
        with torch.no_grad():
            maps = probe.head.layer_maps(None if affine is None else affine[0])
        assert maps is not None, "the head is no sum of maps"
        self._layers = probe.head.layers
        self._maps = full(maps.detach())
        shape = (maps.shape[0], maps.shape[2])
        self._means = torch.zeros(shape, dtype=torch.float64, device=maps.device)
        self._covariance = torch.zeros(shape[0], dtype=torch.float64, device=maps.device)
        self._rows = 0

    @torch.no_grad()
    def add(self, z: Float[Tensor, "rows layers dim"]) -> None:
        """Add a block of rows."""
        at_once = max(1, _AT_ONCE // self._means.numel())
        for first in range(0, len(z), at_once):
            part = z[first : first + at_once]
            with no_autocast(part):
                parts = torch.bmm(full(part.transpose(0, 1)), self._maps)
            self._merge(parts.double())

    def _merge(self, parts: Float64[Tensor, "layers rows outputs"]) -> None:
        # To the only output two layers add 3 and 1 in both rows of a block, then 5 and 1 in both of
        # the next. Inside a block nothing varies; the means are 2 and 0 apart, 2 together, and two
        # rows beside two weigh 2 * 2 / 4: the first layer gets 2 * 2 * 1, the second 0. The outputs
        # 4 4 6 6 do have squares of 4 about their mean.
        rows, outputs = parts.shape[1:]
        if outputs > 1:  # the only output of a regression is not its own mean
            parts = parts - parts.mean(2, keepdim=True)
        means = parts.mean(1)
        parts = parts - means[:, None]
        within = (parts * parts.sum(0)).sum((1, 2))
        total = self._rows + rows
        apart = means - self._means
        between = (apart * apart.sum(0)).sum(1) * (self._rows * rows / total)
        self._covariance += within + between
        self._means += apart * (rows / total)
        self._rows = total

    def weights(self) -> LayerWeights:
        """Return the share of every layer; even shares where the logits do not vary at all."""
        variance = self._covariance.sum()
        shares = self._covariance / variance
        if variance == 0:
            shares = torch.full_like(shares, 1 / len(self._layers))
        return LayerWeights(self._layers, shares)
