"""Mixtures and decoders trained by steps over batches, as papers do: a start, and a candidate."""

from collections.abc import Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from probekit.probe.fitters.minimise import Points, Request
from probekit.probe.fitters.mixtures import Layers, MixtureObjective


class BatchDescent:
    """Adam with a linear decay over batches of neighbouring sentences, all problems at once.

    Attributes:
        objective: of all problems, without L2.
        n_done: steps so far.
    """

    def __init__(
        self,
        objective: MixtureObjective,
        start: Float64[Tensor, "problems values"],
        rates: Sequence[float],
        n_steps: int,
    ) -> None:
        """Begin at some points.

        Args:
            objective: of all problems, without L2.
            start: where each begins.
            rates: of weights and biases, of the loss's own values, of mixtures.
            n_steps: in all.
        """
        self.objective, self._n_steps, self.n_done = objective, n_steps, 0
        self._which = torch.arange(len(start), device=start.device)
        n_extra, n_mixture = objective.loss.n_extra, objective.mixture.n_values
        sizes = [start.shape[1] - n_extra - n_mixture, n_extra, n_mixture]
        self._sizes = sizes
        self._groups = [part.clone() for part in torch.split(start, sizes, 1)]
        pairs = zip(self._groups, rates, strict=True)
        groups = [{"params": [part], "lr": rate} for part, rate in pairs if part.numel()]
        self._adam = torch.optim.Adam(groups)
        self._peaks = [group["lr"] for group in self._adam.param_groups]

    @property
    def points(self) -> Points:
        """Where the problems are."""
        return torch.cat(self._groups, 1)

    @property
    def over(self) -> bool:
        """Whether all steps are done."""
        return self.n_done >= self._n_steps

    def step(self, rows: slice, z: Layers) -> None:
        """Take a step on some rows.

        Args:
            rows: which of all rows these are.
            z: their layers.
        """
        found = self.objective.begin(Request(self._which, self.points))
        found.add(rows, z)
        # Gradients are sums over shares of all rows; a step follows the mean over the batch. A fold
        # without a row in it stands still but for its momentum.
        shares = self.objective.problems.parts[:, rows].sum(1)[self.objective.problems.part]
        gradient = found.finish().gradient / shares.double().clamp(min=1e-12).unsqueeze(1)
        for own, part in zip(self._groups, torch.split(gradient, self._sizes, 1), strict=True):
            own.grad = part
        left = 1 - self.n_done / self._n_steps
        for group, peak in zip(self._adam.param_groups, self._peaks, strict=True):
            group["lr"] = peak * left
        self._adam.step()
        self.n_done += 1
