"""Mixtures and decoders trained by steps over batches, as papers do: a start, and a candidate."""

from collections.abc import Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from probekit.probe.fitters.minimise import Points, Request
from probekit.probe.fitters.mixtures import Layers, MixtureObjective

_BETAS, _EPSILON = (0.9, 0.999), 1e-8  # as in torch


class BatchDescent:
    """Adam with a linear decay over batches of neighbouring sentences, all problems at once.

    Attributes:
        objective: of all problems, without L2.
        points: where the problems are.
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
        self.points: Points = start.clone()
        self._which = torch.arange(len(start), device=start.device)
        n_extra, n_mixture = objective.loss.n_extra, objective.mixture.n_values
        sizes = torch.tensor([start.shape[1] - n_extra - n_mixture, n_extra, n_mixture])
        self._rates = torch.repeat_interleave(start.new_tensor(rates), sizes.to(start.device))
        self._mean, self._square = torch.zeros_like(start), torch.zeros_like(start)

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
        evaluation = self.objective.begin(Request(self._which, self.points))
        evaluation.add(rows, z)
        # Gradients are sums over shares of all rows; a step follows the mean over the batch. A fold
        # without a row in it stands still but for its momentum.
        shares = self.objective.problems.parts[:, rows].sum(1)[self.objective.problems.part]
        gradient = evaluation.finish().gradient / shares.double().clamp(min=1e-12).unsqueeze(1)
        rates = self._rates * (1 - self.n_done / self._n_steps)
        self.n_done += 1
        # torch.optim.Adam would import torch's compiler, which takes seconds
        self._mean.lerp_(gradient, 1 - _BETAS[0])
        self._square.lerp_(gradient.square(), 1 - _BETAS[1])
        mean, square = (
            moment / (1 - beta**self.n_done)
            for moment, beta in zip((self._mean, self._square), _BETAS, strict=True)
        )
        self.points = self.points - rates * mean / (square.sqrt() + _EPSILON)
