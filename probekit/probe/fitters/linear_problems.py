"""A linear layer over rows, fitted for many strengths of L2 and many parts of the rows at once.

f(W, b) = sum_i v_i loss(W z_i + b, y_i) + l2 / 2 |W|^2, the weights v of the rows summing to 1; the
bias is not penalised. Rows are standardised, so that one path of strengths suits every layer: at
the strongest end only the shares of the classes are left, at the weakest the rows of a small sample
are told apart by heart. Where the weakest one is the best, the path goes on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.nn import functional

from probekit.probe.fitters.losses import Derivatives, Loss, bends
from probekit.probe.fitters.minimise import TOLERANCE, Descent, Evaluation, Minimum, Points, Request
from probekit.probe.fitters.preconditioner import BlockInverse, KroneckerInverse

_SLICE_VALUES, _SLICE_ROWS = 2**21, 4096
"""Logits of all problems, and rows, of one slice: they stay in a processor's cache between the two
products of an evaluation."""

_DRAWN = 20
"""Rows that a block of the Hessian is summed over on average, per column of theirs, at most."""

_FLAT = 1e-12
"""Curvature by a logit below which rows are not told apart."""

_FIRST, _STEP, _COUNT = 1.0, -0.75, 6
"""Decade of the strongest strength, decades from one to the next, and how many are tried first:
the weak ones beyond take most of the time, and are seldom the best."""

_MORE, _WEAKEST = 2, -5.75
"""How many weaker ones are added at a time, and the decade below which none is."""

TRANSITIONS = 1e-3
"""Strength of L2 on a chain's transitions and on the scores of first and last tags."""


def weaker_strengths(tried: Sequence[float]) -> tuple[float, ...]:
    """Return the strengths that come after those tried, falling; none at the end of the path."""
    places = range(len(tried), len(tried) + (_MORE if tried else _COUNT))
    decades = [_FIRST + _STEP * step for step in places]
    return tuple(10.0**decade for decade in decades if decade >= _WEAKEST)


@dataclass(frozen=True, eq=False)
class Problems:
    """What is to be fitted to the same rows: every strength to every part of them.

    Attributes:
        l2: strength of each problem.
        part: which part of the rows each problem sees.
        parts: weight of each row in each part; they sum to 1.
    """

    l2: Float64[Tensor, " problems"]
    part: Int64[Tensor, " problems"]
    parts: Float[Tensor, "parts n"]

    @classmethod
    def of(cls, strengths: Iterable[float], parts: Float[Tensor, "parts n"]) -> "Problems":
        """Return all strengths, in their order, for every part."""
        # Two strengths, and four rows in two folds: fold 1 judges rows 0 and 2, fold 2 the others.
        #
        #   parts    1 1 1 1        all of the rows, as shares 1/4 each
        #            0 1 0 1        what is fitted to be judged by fold 1: 0 1/2 0 1/2
        #            1 0 1 0        by fold 2
        #
        #   problem    0    1     2    3     4    5
        #   l2       10.0  1.8  10.0  1.8  10.0  1.8
        #   part       0    0     1    1     2    2
        #
        # Part by part, and strength by strength in each: the first two problems see all rows, and
        # `points.view(3, 2, -1)` has one part's solutions side by side. A block of rows is
        # multiplied with the weights of all six at once; `parts[:, rows][part]` is then the weight
        # of each of its rows in each problem.
        l2 = torch.tensor(list(strengths), dtype=torch.float64, device=parts.device)
        part = torch.arange(len(parts), device=parts.device)
        shares = (parts / parts.double().sum(1, keepdim=True)).float()
        return cls(l2.repeat(len(parts)), part.repeat_interleave(len(l2)), shares)


class LinearObjective:
    """The objective of all problems, summed up block after block of the rows."""

    def __init__(
        self, loss: Loss, problems: Problems, spectrum: Float64[Tensor, " r"], extra_l2: float = 0.0
    ) -> None:
        """Keep what the problems are.

        Args:
            loss: by the logits of the rows.
            problems: strengths and parts.
            spectrum: mean square of each column of the rows.
            extra_l2: strength of L2 on the loss's own values.
        """
        self.loss, self.problems = loss, problems
        self.spectrum, self.extra_l2 = spectrum, extra_l2
        self._width = len(spectrum) + 1
        self._n_weights = loss.n_logits * self._width
        self.n_values = self._n_weights + loss.n_extra

    def start(self) -> Float64[Tensor, "problems values"]:
        """Return points without weights, with the biases of the classes' shares."""
        problems = self.problems
        points = problems.l2.new_zeros(len(problems.l2), self.n_values)
        self.unpack(points)[1].copy_(self.loss.start(problems.parts)[problems.part])
        return points

    def descent(self) -> Descent:
        """Return the minimisation of all problems, not begun."""
        loss = self.loss
        tolerance, beside = TOLERANCE / loss.strictness, [loss.n_extra] if loss.n_extra else []
        kind = KroneckerInverse if loss.even else BlockInverse  # the former is exact then
        l2, n_logits = self.problems.l2, loss.n_logits
        inverse = kind(self.spectrum, l2, n_logits, beside=beside, apart=loss.apart)
        return Descent(self.start(), inverse, tolerance=tolerance)

    def unpack(self, points: Points) -> tuple[Tensor, Tensor, Tensor]:
        """Return weights (some, logits, r), biases, and the loss's own values; all are views."""
        weights = points[:, : self._n_weights].view(len(points), self.loss.n_logits, self._width)
        return weights[:, :, :-1], weights[:, :, -1], points[:, self._n_weights :]

    def predict(
        self, points: Points, z: Float[Tensor, "n r"], offsets: Int64[Tensor, " bounds"]
    ) -> Tensor:
        """Return what some problems predict of rows, shape (some, n).

        Args:
            points: of the problems.
            z: rows in the basis of the objective.
            offsets: bounds of the sentences in them.
        """
        weights, bias, extra = self.unpack(points)
        flat = weights.reshape(bias.numel(), z.shape[1]).float()
        logits = torch.addmm(bias.reshape(-1, 1).float(), flat, z.t())
        return self.loss.predict(logits.view(len(points), -1, len(z)), extra, offsets)

    def begin(self, request: Request) -> "Pass":
        """Return an evaluation to which rows can be added."""
        return Pass(self, request)


class Sums:
    """What is summed up over rows of some problems' losses and gradients.

    Attributes:
        l2: strength of each problem.
        weights: of the logits.
        bias: of the same.
        extra: the loss's own values.
    """

    def __init__(self, objective: LinearObjective, request: Request) -> None:
        """Start before any row."""
        self.l2 = objective.problems.l2[request.which]
        self.weights, self.bias, self.extra = objective.unpack(request.points)
        self._extra_l2 = objective.extra_l2
        self._value = torch.zeros_like(self.l2)
        self._by_weights = torch.zeros_like(self.weights)
        self._by_bias, self._by_extra = torch.zeros_like(self.bias), torch.zeros_like(self.extra)
        self._curvature: Tensor | None = None

    def add(self, derivatives: Derivatives, by_weights: Tensor, by_bias: Tensor) -> None:
        """Add what was found of some rows, and the gradients by weights and biases."""
        self._value += derivatives.value
        self._by_weights += by_weights.view_as(self._by_weights)
        self._by_bias += by_bias.view_as(self._by_bias)
        self._by_extra += derivatives.by_extra
        before = self._curvature
        after = derivatives.curvature
        self._curvature = after if before is None else before + after

    def finish(self) -> Evaluation:
        """Return the sums with the penalty, laid out as points are."""
        value = self._value + self.l2 / 2 * self.weights.square().sum((1, 2))
        value = value + self._extra_l2 / 2 * self.extra.square().sum(1)
        by_weights = self._by_weights + self.l2.view(-1, 1, 1) * self.weights
        joined = torch.cat([by_weights, self._by_bias.unsqueeze(2)], 2).flatten(1)
        by_extra = self._by_extra + self._extra_l2 * self.extra
        return Evaluation(value, torch.cat([joined, by_extra], 1), self._curvature)


class Pass:
    """One evaluation of some problems, row block by row block."""

    def __init__(self, objective: LinearObjective, request: Request) -> None:
        """Start before any row."""
        self._loss, self._parts = objective.loss, objective.problems.parts
        self._part = objective.problems.part[request.which]
        self._sums = Sums(objective, request)
        self._matrix = self._sums.weights.flatten(0, 1).float()
        self._bias = self._sums.bias.reshape(-1, 1).float()
        self._blocks: _Blocks | None = None
        if request.curvature is not None:
            self._blocks = _Blocks(request.curvature, len(objective.spectrum) + 1)

    def add(self, rows: slice, z: Float[Tensor, "n r"]) -> None:
        """Add some rows."""
        most = min(max(_SLICE_VALUES // max(len(self._matrix), 1), 64), _SLICE_ROWS)
        for part in self._loss.slices(rows, most):
            self._add(part, z[part.start - rows.start : part.stop - rows.start])

    def _add(self, rows: slice, z: Tensor) -> None:
        logits = torch.addmm(self._bias, self._matrix, z.t()).view(len(self._part), -1, len(z))
        weights = self._parts[:, rows][self._part]
        derivatives = self._loss.derive(logits, self._sums.extra, weights, rows)
        if self._blocks is not None:
            self._blocks.add(bends(derivatives.by_logits, weights), z)
        by_logits = derivatives.by_logits.reshape(len(self._matrix), len(z))
        self._sums.add(derivatives, by_logits @ z, by_logits.double().sum(1))

    def finish(self) -> Evaluation:
        """Return the sums over all rows that were added, with the penalty."""
        blocks = None if self._blocks is None else self._blocks.sums
        return replace(self._sums.finish(), blocks=blocks)


class _Blocks:
    """Sums of second derivatives by the weights and bias of each logit, over rows that are drawn.

    The more a row's logit bends the loss, the likelier it is drawn, and what is drawn is weighted
    so that the sum is right on average.

    Attributes:
        sums: the sums so far.
    """

    def __init__(self, curvature: Float64[Tensor, "problems logits"], width: int) -> None:
        self.sums = curvature.new_zeros(*curvature.shape, width, width, dtype=torch.float32)
        self._step = (curvature.clamp(min=_FLAT) / (_DRAWN * width)).float().unsqueeze(2)
        # The same draw in every pass: a fit can be repeated, and differs by its points alone.
        self._generator = torch.Generator().manual_seed(0)

    def add(self, bent: Float[Tensor, "problems logits n"], z: Float[Tensor, "n r"]) -> None:
        chances = bent / self._step
        scales = torch.maximum(bent, self._step.expand_as(bent)).sqrt()
        drawn = chances > torch.rand(len(z), generator=self._generator).to(z.device)
        for sums, rows_drawn, scale in zip(
            self.sums.flatten(0, 1), drawn.flatten(0, 1), scales.flatten(0, 1), strict=True
        ):
            places = rows_drawn.nonzero().squeeze(1)
            rows = functional.pad(z[places], (0, 1), value=1.0) * scale[places].unsqueeze(1)
            sums.addmm_(rows.t(), rows)


class RidgeSums:
    """Ridge regression of all problems, in closed form once the rows are summed up.

    min over w, b of sum_i v_i (t_i - w z_i - b)^2 / 2 + l2 / 2 |w|^2: with rows and numbers
    centred, w = (Z'VZ + l2)^-1 Z'Vt (Hoerl & Kennard 1970).
    """

    def __init__(self, problems: Problems, targets: Float64[Tensor, " n"]) -> None:
        """Keep strengths and parts, and the number of each row."""
        self._problems, self._targets = problems, targets
        self._joined: list[Tensor] = []

    def add(self, rows: slice, z: Float[Tensor, "n r"]) -> None:
        """Add some rows."""
        numbers = self._targets[rows].unsqueeze(1)
        columns = torch.cat([z.double(), numbers, torch.ones_like(numbers)], 1)
        weights = self._problems.parts[:, rows].double()
        products = [columns.t() @ (columns * shares.unsqueeze(1)) for shares in weights]
        before = self._joined or [torch.zeros_like(product) for product in products]
        self._joined = [sums + product for sums, product in zip(before, products, strict=True)]

    def finish(self) -> Minimum:
        """Return weights and bias of every problem, laid out as `LinearObjective` does."""
        strengths = [self._problems.l2[self._problems.part == n] for n in range(len(self._joined))]
        solutions = [_solve_part(*pair) for pair in zip(self._joined, strengths, strict=True)]
        points, values = (torch.cat(parts) for parts in zip(*solutions, strict=True))
        zero = torch.zeros_like(values)
        return Minimum(
            points=points,
            value=values,
            gradient=zero,
            tolerance=zero,
            iterations=zero.long(),
            converged=torch.ones_like(zero, dtype=torch.bool),
        )


def _solve_part(
    product: Float64[Tensor, "r2 r2"], strengths: Float64[Tensor, " strengths"]
) -> tuple[Float64[Tensor, "strengths r1"], Float64[Tensor, " strengths"]]:
    """Return weights with the bias behind them, and objectives, of all strengths.

    Args:
        product: weighted products of rows, numbers and ones, in this order, among each other.
        strengths: of L2.
    """
    product = product / product[-1, -1]  # the weights sum to 1 but for rounding
    means = product[-1, :-1]
    centred = product[:-1, :-1] - torch.outer(means, means)
    spectrum, vectors = torch.linalg.eigh(centred[:-1, :-1])
    target = vectors.t() @ centred[:-1, -1]
    turned = target / (spectrum.clamp(min=0) + strengths.unsqueeze(1))
    weights = turned @ vectors.t()
    bias = means[-1] - weights @ means[:-1]
    values = (centred[-1, -1] - turned @ target) / 2
    return torch.cat([weights, bias.unsqueeze(1)], 1), values
