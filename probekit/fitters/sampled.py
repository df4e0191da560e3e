"""Evaluations from a sample of the rows, exact at the last points where all rows were read.

Of many rows most are told apart early, and add little to a gradient. So a few are drawn, by how
much each adds, and weighted so that sums over them are right on average (priority sampling,
Duffield et al. 2007). A linear term makes value and gradient exact where the sample was drawn (as
in Johnson & Zhang 2013 and Shamir et al. 2014), so that a minimisation, which draws anew from time
to time and before it ends, ends at the minimum over all rows.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.fitters.linear import LinearObjective, Pass, Problems
from probekit.fitters.losses import RowLoss
from probekit.fitters.minimise import Evaluation, Request

_PER_WIDTH, _SHARE = 6, 0.1
"""Rows of a sample: so many per column, and at least this share of all."""

_WORTH, _LEAST = 3, 10_000
"""How many times as many rows there must be, and how many at least: passes over few are cheap."""

_WORSE, _PATIENCE = 1e-6, 40
"""A sample is too small if the objective has grown by this share when all rows are read again, or
if so many were drawn."""

Take = Callable[[slice, Tensor], None]
Evaluating = Generator[Take, None, Evaluation]
"""What is to be done with all rows, block by block, once or several times; then the evaluation."""

Evaluate = Callable[[Request], Evaluating]


@runtime_checkable
class Sums(Protocol):
    """An evaluation that is summed up over blocks of rows."""

    def add(self, rows: slice, z: Tensor, /) -> None:
        """Add some rows."""

    def finish(self) -> Evaluation:
        """Return the evaluation over all rows that were added."""


def evaluation_of(objective: LinearObjective, *, sampled: bool = True) -> Evaluate:
    """Return what evaluates an objective.

    Args:
        objective: of all problems.
        sampled: whether rows may be sampled, where there are enough and the loss allows it.
    """
    size = sample_size(objective.problems.parts.shape[1], len(objective.spectrum))
    if size is None or not sampled or not isinstance(objective.loss, RowLoss):
        return over_all_rows(objective.begin)
    return SampledObjective(objective, size).evaluate


def sample_size(n_rows: int, width: int) -> int | None:
    """Return the rows of a sample; None where it is not worth the trouble."""
    size = max(_PER_WIDTH * width, int(_SHARE * n_rows))
    return size if n_rows >= max(_WORTH * size, _LEAST) else None


def over_all_rows(begin: Callable[[Request], Sums]) -> Evaluate:
    """Return what evaluates in one pass, given what begins to sum over rows."""

    def evaluate(request: Request) -> Evaluating:
        found = begin(request)
        yield found.add
        return found.finish()

    return evaluate


def answer(steps: Evaluating, blocks: Iterable[tuple[slice, Float[Tensor, "n r"]]]) -> Evaluation:
    """Return an evaluation over rows in memory."""
    rows = list(blocks)
    try:
        while True:
            take = next(steps)
            for place, z in rows:
                take(place, z)
    except StopIteration as end:
        found: Evaluation = end.value
        return found


class SampledObjective:
    """A linear objective whose evaluations need not be exact."""

    def __init__(self, objective: LinearObjective, size: int) -> None:
        """Start without a sample.

        Args:
            objective: of a loss that is a sum over rows.
            size: rows to draw.
        """
        self._objective, self._size = objective, size
        self._generator = torch.Generator().manual_seed(0)
        self._sample: _Sample | None = None
        self._n_draws = 0
        self._values = torch.full_like(objective.problems.l2, torch.inf)

    def evaluate(self, request: Request) -> Evaluating:
        """Evaluate over the sample, or over all rows, of which another sample is drawn then."""
        if not request.exact:
            if self._sample is not None:
                return self._sample.evaluate(request)
            return (yield from over_all_rows(self._objective.begin)(request))
        self._sample = None
        found = self._objective.begin(request, weigh=True)
        yield found.add
        evaluation = found.finish()
        self._judge(request, evaluation)
        if self._size * _WORTH <= found.sizes.shape[1]:
            sample = _Sample(self._objective, *self._draw(found))
            yield sample.add
            sample.anchor(request, evaluation)
            self._sample = sample
        return evaluation

    def _judge(self, request: Request, exact: Evaluation) -> None:
        """Double the sample if it led astray: in the end all rows are read."""
        before = self._values[request.which]
        worse = exact.value > before + _WORSE * exact.value.abs()
        self._n_draws += 1
        if bool(worse.any()) or self._n_draws > _PATIENCE:
            self._size *= 2
        self._values[request.which] = exact.value

    def _draw(self, found: Pass) -> tuple[Tensor, Float[Tensor, " m"]]:
        """Return the places of the rows of a sample, ascending, and what each is to be weighted by.

        A row's size is its share of the sizes in each problem, summed over the problems.
        """
        sizes = found.sizes / found.sizes.sum(1, keepdim=True).clamp(min=1e-30)
        size = sizes.sum(0).double()
        uniform = torch.rand(len(size), dtype=torch.float64, generator=self._generator)
        priority = size / (1 - uniform).to(size.device)
        top = priority.topk(self._size + 1)
        places = top.indices[:-1].sort().values
        places = places[size[places] > 0]
        return places, (top.values[-1] / size[places]).clamp(min=1).float()


class _Sample:
    """Some rows, and what makes evaluations over them exact at the points of the anchor."""

    def __init__(
        self, objective: LinearObjective, places: Tensor, weights: Float[Tensor, " m"]
    ) -> None:
        problems, loss = objective.problems, objective.loss
        assert isinstance(loss, RowLoss), "a sum over rows"
        parts = problems.parts[:, places] * weights
        own = Problems(problems.l2, problems.part, parts)
        self._objective = LinearObjective(loss.at(places), own, objective.spectrum)
        self._places = places
        self._blocks: list[Tensor] = []

    def add(self, rows: slice, z: Float[Tensor, "n r"]) -> None:
        """Take what belongs to the sample from a block of all rows."""
        first, last = torch.searchsorted(
            self._places, self._places.new_tensor([rows.start, rows.stop])
        ).tolist()
        self._blocks.append(z[self._places[first:last] - rows.start])

    def anchor(self, request: Request, exact: Evaluation) -> None:
        """Make evaluations exact at some points."""
        self._rows = torch.cat(self._blocks)
        self._blocks.clear()
        own = self._over_rows(request)
        self._which, self._points = request.which, request.points
        self._value: Float64[Tensor, " problems"] = exact.value - own.value
        self._slope: Float64[Tensor, "problems values"] = exact.gradient - own.gradient

    def evaluate(self, request: Request) -> Evaluation:
        """Return the evaluation, for problems that the anchor had."""
        own = self._over_rows(request)
        here = torch.searchsorted(self._which, request.which)
        slope = self._slope[here]
        moved = (slope * (request.points - self._points[here])).sum(1)
        value = own.value + self._value[here] + moved
        return Evaluation(value, own.gradient + slope, own.curvature, exact=False)

    def _over_rows(self, request: Request) -> Evaluation:
        return self._objective.evaluate(request, [(slice(0, len(self._rows)), self._rows)])
