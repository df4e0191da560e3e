"""A mixture of the layers and a linear layer over it: solved together, or trained by steps.

f(m, W, b) = sum_i v_i loss(W h_i(m) + b, y_i) + l2 / 2 |W|^2, where h is a weighted sum of the
layers: with one softmax for all rows (`SharedMixture`), or one for every row by a learned query
(`RowMixture`). Given the mixture it is convex; in both together it is not, so it is solved from
several starts.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.probe.fitters.linear_problems import LinearObjective, Problems, Sums
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import Descent, Evaluation, Minimisation, Points, Request
from probekit.probe.fitters.preconditioner import KroneckerInverse

_BLOCK_VALUES = 2**19
"""Values of all problems' mixtures that are computed at a time: they stay in a core's cache, which
is 2.5 times as fast as 2**22."""

_LONGEST = 10.0
"""Norm of a query beyond which single rows, not layers, decide what it prefers."""

_NEAR, _LEAST = 0.9, 1e-35
"""Weight of a layer in the start near its vertex, and the least that a gradient is told by."""

_ALONE = 40.0
"""Lead of a layer that leaves the others less than float32 can tell from nothing."""


_MOST_PROJECTED = 4
"""Logits up to which every layer is projected onto them before they are mixed."""


Layers = Float[Tensor, "layers n dim"]

Mixed = Float[Tensor, "problems n dim"]
"""Every problem's h."""

Weights = Float[Tensor, "layers problems #n"]
"""Of the layers in every problem's h: one for each row, or one for all."""

Matrix = Float[Tensor, "problems logits dim"]
"""Every problem's linear layer."""

Values = Float[Tensor, "problems values"]
"""What decides every problem's mixture."""


class Mixture(ABC):
    """How layers are mixed, for many problems at once.

    Attributes:
        n_values: values that decide a problem's mixture.
        penalised: whether these carry the decoder's L2 as well; weights on a simplex need none.
    """

    n_values: int
    penalised: ClassVar[bool] = False

    @abstractmethod
    def near(self, index: int) -> Float64[Tensor, " values"] | None:
        """Return values that give one layer most of the weight, if there are any."""

    def alone(self, index: int) -> Float64[Tensor, " values"] | None:
        """Return values that leave one layer alone, if there are any."""
        return None

    def even(self) -> Float64[Tensor, " values"]:
        """Return the values of the average."""
        return torch.zeros(self.n_values, dtype=torch.float64)

    @abstractmethod
    def weights(self, values: Values, z: Layers) -> Weights:
        """Return the softmax over layers."""

    @abstractmethod
    def mixed(self, weights: Weights, z: Layers) -> Mixed:
        """Return every problem's h."""

    @abstractmethod
    def by_weights(self, by_h: Mixed, z: Layers) -> Weights:
        """Return the gradient by the weights, given that by h."""

    @abstractmethod
    def by_values(self, by_scores: Weights, z: Layers) -> Values:
        """Return the gradient by the values, given that by what the softmax is of."""

    def residual(self, values: Points, gradient: Points) -> Float64[Tensor, " some"]:
        """Return how far each mixture is from where its gradient allows no decrease."""
        return gradient.norm(dim=1)


class SharedMixture(Mixture):
    """h = sum_i softmax(a)_i z_i: P-32, eq. 1, and the scalar mix with its scale at 1."""

    def __init__(self, n_layers: int) -> None:
        """One value per layer."""
        self.n_values = n_layers

    def near(self, index: int) -> Float64[Tensor, " values"]:
        """Return the value that gives a layer nine tenths of the weight."""
        values = self.even()
        values[index] = torch.tensor(_NEAR * (self.n_values - 1) / (1 - _NEAR)).log().clamp(min=0)
        return values

    def alone(self, index: int) -> Float64[Tensor, " values"]:
        """Return values of a vertex."""
        values = self.even()
        values[index] = _ALONE
        return values

    def weights(self, values: Values, z: Layers) -> Weights:
        """Return the weights of all rows."""
        return values.softmax(1).t().unsqueeze(2)

    def mixed(self, weights: Weights, z: Layers) -> Mixed:
        """Return the weighted sums."""
        return (weights.squeeze(2).t() @ z.flatten(1)).view(-1, *z.shape[1:])

    def by_weights(self, by_h: Mixed, z: Layers) -> Weights:
        """Return the gradient summed over rows."""
        return (z.flatten(1) @ by_h.flatten(1).t()).unsqueeze(2)

    def by_values(self, by_scores: Weights, z: Layers) -> Values:
        """Return the gradient as it is."""
        return by_scores.squeeze(2).t()

    def residual(self, values: Points, gradient: Points) -> Float64[Tensor, " some"]:
        """Return the norm of the projected gradient on the simplex of weights.

        A softmax's own gradient vanishes at every vertex; this one only where no other layer
        would lower the objective.
        """
        weights = values.softmax(1)
        by_weights = gradient / weights.clamp(min=_LEAST)
        return (weights - onto_simplex(weights - by_weights)).norm(dim=1)


class RowMixture(Mixture):
    """h = sum_i softmax_i(q . z_i) z_i: attention fusion, eq. 1-2."""

    penalised = True

    def __init__(self, means: Float64[Tensor, "layers dim"]) -> None:
        """Keep the mean row of each layer, which says in which direction it lies."""
        self._means = means
        self.n_values = means.shape[1]

    def near(self, index: int) -> Float64[Tensor, " values"] | None:
        """Return a query that prefers a layer's mean row to the mean rows of all others.

        None where means are too close for that, as those of standardised layers are.
        """
        if len(self._means) == 1:
            return None
        others = torch.cat([self._means[:index], self._means[index + 1 :]])
        query = self._means[index] - others.mean(0)
        lead = (query * (self._means[index] - others)).sum(1).min()
        wanted = torch.tensor(_NEAR * len(others) / (1 - _NEAR)).log()
        return query * (wanted / lead) if lead * _LONGEST > wanted * query.norm() else None

    def weights(self, values: Values, z: Layers) -> Weights:
        """Return the weights of every row."""
        return (values @ z.transpose(1, 2)).softmax(0)

    def mixed(self, weights: Weights, z: Layers) -> Mixed:
        """Return the weighted sums, row by row: one product for the layers of each."""
        return torch.bmm(weights.permute(2, 1, 0), z.transpose(0, 1)).transpose(0, 1)

    def by_weights(self, by_h: Mixed, z: Layers) -> Weights:
        """Return the gradient of every row."""
        return torch.bmm(by_h.transpose(0, 1), z.permute(1, 2, 0)).permute(2, 1, 0)

    def by_values(self, by_scores: Weights, z: Layers) -> Values:
        """Return the gradient by the queries, whose products with the rows the scores are."""
        return (by_scores @ z).sum(0)


class MixedFirst:
    """Logits of some rows: their layers are mixed, and what comes of it is projected.

    Attributes:
        logits: without their biases.
    """

    logits: Float[Tensor, "problems logits n"]

    def __init__(self, mixture: Mixture, weights: Weights, matrix: Matrix, z: Layers) -> None:
        """Compute them."""
        self._mixture, self._matrix, self._z = mixture, matrix, z
        self._h = mixture.mixed(weights, z)
        self.logits = matrix @ self._h.transpose(1, 2)

    def by_matrix(self, by_logits: Tensor) -> Matrix:
        """Return the gradient by the projection."""
        return by_logits @ self._h

    def by_weights(self, by_logits: Tensor) -> Weights:
        """Return the gradient by the weights of the layers."""
        return self._mixture.by_weights(by_logits.transpose(1, 2) @ self._matrix, self._z)


class ProjectedFirst:
    """The same logits: every layer is projected, and what comes of it is mixed.

    With few logits it is faster, as there is no h of every problem and row in between.

    Attributes:
        logits: without their biases.
    """

    logits: Float[Tensor, "problems logits n"]

    def __init__(self, mixture: Mixture, weights: Weights, matrix: Matrix, z: Layers) -> None:
        """Compute them."""
        self._weights, self._z = weights.unsqueeze(2), z
        projected = matrix.flatten(0, 1) @ z.transpose(1, 2)
        self._projected = projected.view(len(z), *matrix.shape[:2], z.shape[1])
        self.logits = (self._weights * self._projected).sum(0)

    def by_matrix(self, by_logits: Tensor) -> Matrix:
        """Return the gradient by the projection."""
        by_projected = (self._weights * by_logits).flatten(1, 2)
        return (by_projected @ self._z).sum(0).view(*by_logits.shape[:2], -1)

    def by_weights(self, by_logits: Tensor) -> Weights:
        """Return the gradient by the weights of the layers."""
        gradient = (by_logits * self._projected).sum(2)
        return gradient.sum_to_size(self._weights.squeeze(2).shape)


def onto_simplex(points: Points) -> Points:
    """Return the nearest points whose values are not negative and sum to 1 (Duchi et al. 2008)."""
    # 0.9 0.5 -0.2: sums of the falling values less 1, each by its count, are -0.1 0.2 0.067; two of
    # the values are above their level, the second of which is 0.2: 0.7 0.3 0.0.
    falling = points.sort(1, descending=True).values
    count = torch.arange(1, points.shape[1] + 1, device=points.device)
    level = (falling.cumsum(1) - 1) / count
    n_kept = (falling > level).sum(1, keepdim=True)
    return (points - level.gather(1, n_kept - 1)).clamp(min=0)


class MixtureObjective:
    """The objective of all problems, each with a mixture and a linear layer of its own.

    Values of a problem are the weights of each logit with its bias behind them, the loss's own
    values, and those of the mixture.
    """

    def __init__(
        self,
        loss: Loss,
        mixture: Mixture,
        problems: Problems,
        spectrum: Float64[Tensor, " dim"],
        *,
        extra_l2: float,
    ) -> None:
        """Keep what the problems are.

        Args:
            loss: by the logits of the rows.
            mixture: of the layers.
            problems: strengths and parts.
            spectrum: mean square of each component of the uniform mixture's rows.
            extra_l2: strength of L2 on the loss's own values.
        """
        self.loss, self.mixture, self.problems = loss, mixture, problems
        self.linear = LinearObjective(loss, problems, spectrum, extra_l2)
        self._projects = loss.n_logits <= _MOST_PROJECTED

    def start(self, mixtures: Float64[Tensor, "problems values"]) -> Float64[Tensor, "problems _"]:
        """Return points with these mixtures, no weights, and the biases of the classes' shares."""
        return torch.cat([self.linear.start(), mixtures], 1)

    def minimise(
        self, start: Float64[Tensor, "problems _"], most: int, tolerance: float
    ) -> Minimisation:
        """Return the minimisation of all problems from some points, which asks for evaluations."""
        loss, n_values = self.loss, self.mixture.n_values
        inverse = KroneckerInverse(
            self.linear.spectrum,
            self.problems.l2,
            loss.n_logits,
            beside=[size for size in (loss.n_extra, n_values) if size],
        )
        return Descent(start, inverse, most=most, tolerance=tolerance).go_on()

    def split(self, points: Points) -> tuple[Tensor, Tensor]:
        """Return what the linear layer and the loss own of some points, and mixtures."""
        # Two logits, rows of width 2, a chain's extra values e and three layers' values m:
        #
        #   w00 w01 b0  w10 w11 b1  e e .. | m0 m1 m2
        #
        # so that weights with the bias behind them are (some, logits, width + 1), as gradients are
        # for the preconditioner, and each group beside them has a curvature of its own there.
        return points[:, : self.linear.n_values], points[:, self.linear.n_values :]

    def unpack(self, points: Points) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return weights (some, logits, dim), biases, the loss's own values, and mixtures."""
        linear, mixture = self.split(points)
        return *self.linear.unpack(linear), mixture

    def predict(self, points: Points, z: Layers, offsets: Tensor) -> Tensor:
        """Return what some problems predict of rows, shape (some, n)."""
        weights, bias, extra, mixture = self.unpack(points)
        matrix, values, bias = weights.float(), mixture.float(), bias.float().unsqueeze(2)
        parts = torch.split(z, self.rows_at_a_time(len(points), z), 1)
        logits = [self.logits(values, matrix, part)[0].logits + bias for part in parts]
        return self.loss.predict(torch.cat(logits, 2), extra, offsets)

    def rows_at_a_time(self, n_problems: int, z: Layers) -> int:
        """Return how many rows to compute at a time, that what comes in between stays near."""
        each = len(z) * self.loss.n_logits if self._projects else z.shape[2]
        return max(_BLOCK_VALUES // (n_problems * each), 64)

    def logits(
        self, values: Values, matrix: Matrix, z: Layers
    ) -> tuple[MixedFirst | ProjectedFirst, Weights]:
        """Return the logits of some rows, and the weights of the layers in them."""
        weights = self.mixture.weights(values, z)
        order = ProjectedFirst if self._projects else MixedFirst
        return order(self.mixture, weights, matrix, z), weights

    def begin(self, request: Request) -> "MixturePass":
        """Return an evaluation to which rows can be added."""
        return MixturePass(self, request)


class MixturePass:
    """One evaluation of some problems, row block by row block."""

    def __init__(self, objective: MixtureObjective, request: Request) -> None:
        """Start before any row."""
        self._objective = objective
        points, self._values = objective.split(request.points)
        self._part = objective.problems.part[request.which]
        self._sums = Sums(objective.linear, Request(request.which, points))
        self._matrix = self._sums.weights.float()
        self._bias = self._sums.bias.float().unsqueeze(2)
        self._mixture = self._values.float()
        self._by_mixture = torch.zeros_like(self._values)

    def add(self, rows: slice, z: Layers) -> None:
        """Add some rows."""
        most = self._objective.rows_at_a_time(len(self._part), z)
        for part in self._objective.loss.slices(rows, most):
            self._add(part, z[:, part.start - rows.start : part.stop - rows.start])

    def _add(self, rows: slice, z: Tensor) -> None:
        objective = self._objective
        order, layers = objective.logits(self._mixture, self._matrix, z)
        shares = objective.problems.parts[:, rows][self._part]
        logits, extra = order.logits + self._bias, self._sums.extra
        derivatives = objective.loss.derive(logits, extra, shares, rows)
        by_logits = derivatives.by_logits
        self._sums.add(derivatives, order.by_matrix(by_logits), by_logits.double().sum(2))
        by_layers = order.by_weights(by_logits)
        by_scores = layers * (by_layers - (layers * by_layers).sum(0))
        self._by_mixture += objective.mixture.by_values(by_scores, z)

    def finish(self) -> Evaluation:
        """Return the sums over all rows that were added, with the penalty."""
        linear, by_mixture = self._sums.finish(), self._by_mixture
        value = linear.value
        if self._objective.mixture.penalised:
            l2 = self._sums.l2
            value = value + l2 / 2 * self._values.square().sum(1)
            by_mixture = by_mixture + l2.unsqueeze(1) * self._values
        return Evaluation(value, torch.cat([linear.gradient, by_mixture], 1), linear.curvature)


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
