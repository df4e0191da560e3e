"""L-BFGS over many problems side by side, each with a step length of its own.

The problems share their rows, so that one pass over these evaluates all of them; nothing else. A
problem that has converged leaves, and costs nothing more. Written as a generator, so that several
minimisations can wait for one and the same pass (Liu & Nocedal 1989; the line search is that of
Lewis & Overton 2013 for the weak Wolfe conditions).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

TOLERANCE = 3e-8
"""Largest decrease that is still to be expected at the end, relative to the objective."""

MOST_ITERATIONS = 1000

_MEMORY = 20
_ARMIJO, _WOLFE = 1e-4, 0.9
_MOST_TRIALS = 20
_NOISE = 2e-7
"""Relative rounding error of an objective; a step that changes it by less is judged by slopes."""


Which = Int64[Tensor, " some"]
"""Numbers of some of the problems, ascending."""

Points = Float64[Tensor, "some values"]
"""Values of these problems, or gradients by them."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Objectives and gradients at some points.

    Attributes:
        value: of each problem.
        gradient: of each problem.
        curvature: what the preconditioner can use of the points, problem by problem.
        blocks: of the Hessian, one per logit, where they were asked for.
    """

    value: Float64[Tensor, " problems"]
    gradient: Float64[Tensor, "problems values"]
    curvature: Tensor | None = None
    blocks: Float[Tensor, "problems logits width width"] | None = None

    @classmethod
    def joined(cls, parts: Sequence["Evaluation"]) -> "Evaluation":
        """Return those of some problems, one after the other, without blocks."""
        curvatures = [part.curvature for part in parts if part.curvature is not None]
        return cls(
            torch.cat([part.value for part in parts]),
            torch.cat([part.gradient for part in parts]),
            torch.cat(curvatures) if curvatures else None,
        )

    def take(self, places: Tensor) -> "Evaluation":
        """Return those of some problems, without blocks, which are used at once."""
        curvature = None if self.curvature is None else self.curvature[places]
        return Evaluation(self.value[places], self.gradient[places], curvature)


@dataclass(frozen=True, eq=False)
class Request:
    """Points at which some of the problems are to be evaluated.

    Attributes:
        which: number of each problem.
        points: one per problem.
        curvature: by each logit, summed over the rows, where blocks of the Hessian are wanted.
    """

    which: Which
    points: Points
    curvature: Float64[Tensor, "some logits"] | None = None


class Preconditioner(ABC):
    """An approximation of each problem's inverse Hessian, which may learn on the way."""

    @abstractmethod
    def update(self, which: Which, points: Points, evaluation: Evaluation) -> None:
        """Take in the newest points of some problems, and what was found there."""

    def wanted(self, which: Which, points: Points) -> Request | None:
        """Return where blocks of the Hessian are worth another pass, if anywhere."""
        return None

    def sharpen(self, which: Which, evaluation: Evaluation) -> None:
        """Take in the blocks of the Hessian that were wanted."""
        raise NotImplementedError(f"{type(self).__name__} wants no blocks")

    @abstractmethod
    def reset(self, which: Which) -> None:
        """Forget what was learned from the steps of some problems."""

    @abstractmethod
    def apply(self, which: Which, gradient: Points) -> Points:
        """Return the approximate inverse Hessian times a vector, problem by problem."""


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the minimisation of each problem ended.

    Attributes:
        points: the points.
        value: objectives there.
        gradient: norm of the gradient in the metric of the inverse Hessian: the square root of
            twice the decrease that is still to be expected.
        tolerance: what it had to fall below.
        iterations: steps of each problem.
        converged: whether it did.
    """

    points: Float64[Tensor, "problems values"]
    value: Float64[Tensor, " problems"]
    gradient: Float64[Tensor, " problems"]
    tolerance: Float64[Tensor, " problems"]
    iterations: Int64[Tensor, " problems"]
    converged: Bool[Tensor, " problems"]


Minimisation = Generator[Request, Evaluation, Minimum]
Product = Callable[[Tensor], Tensor]


class Descent:
    """The minimisation of all problems: they may wait at a loose tolerance, and some go on.

    Attributes:
        minimum: where each problem is, filled in on the way.
    """

    def __init__(
        self,
        start: Float64[Tensor, "problems values"],
        preconditioner: Preconditioner,
        *,
        tolerance: float = TOLERANCE,
        most: int = MOST_ITERATIONS,
    ) -> None:
        """Begin nowhere yet.

        Args:
            start: where each problem begins.
            preconditioner: of the same problems.
            tolerance: relative to the objective.
            most: iterations of each problem, at most.
        """
        self._preconditioner, self._tolerance, self._most = preconditioner, tolerance, most
        self._active = torch.arange(len(start), device=start.device)
        self.minimum = Minimum(
            points=start.clone(),
            value=start.new_zeros(len(start)),
            gradient=start.new_zeros(len(start)),
            tolerance=start.new_zeros(len(start)),
            iterations=torch.zeros_like(self._active),
            converged=torch.zeros_like(self._active, dtype=torch.bool),
        )
        self._restarted = torch.zeros_like(self.minimum.converged)
        self._evaluation: Evaluation
        self._memory = _Memory()
        self._waiting: dict[int, tuple[Evaluation, _Memory]] = {}

    def go_on(self, which: Which | None = None, *, looser: float = 1.0) -> Minimisation:
        """Minimise problems; yields where they are to be evaluated, and is sent the evaluations.

        Args:
            which: of those that wait; at first it is all of them.
            looser: how many times the tolerance. Above 1 problems wait where they end.

        Returns:
            Where each problem is (the generator's value).
        """
        if which is None or not self._waiting:
            self._evaluation = yield Request(self._active, self._points)
            self._preconditioner.update(self._active, self._points, self._evaluation)
        else:
            waiting = [self._waiting.pop(n) for n in which.tolist()]
            self._active = which
            self._evaluation = Evaluation.joined([evaluation for evaluation, _ in waiting])
            self._memory = _Memory.joined([memory for _, memory in waiting])
        for _ in range(self._most - int(self.minimum.iterations[self._active].max())):
            direction = self._directions(looser)
            if not len(self._active):
                break
            search = _LineSearch(self._points, self._evaluation, direction)
            while len(search.open):
                search.note((yield Request(self._active[search.open], search.trial())))
            self._move(search, looser)
            wanted = self._preconditioner.wanted(self._active, self._points)
            if wanted is not None:
                self._preconditioner.sharpen(wanted.which, (yield wanted))
        self._keep(torch.zeros_like(self._active, dtype=torch.bool), looser)
        return self.minimum

    @property
    def _points(self) -> Tensor:
        return self.minimum.points[self._active]

    def _directions(self, looser: float) -> Float64[Tensor, "active values"]:
        """Return where each problem goes next; those that are near enough leave."""
        gradient = self._evaluation.gradient
        plain = self._preconditioner.apply(self._active, gradient)
        initial = partial(self._preconditioner.apply, self._active)
        direction = -self._memory.apply(gradient, initial)
        bad = (direction * gradient).sum(1) >= 0  # no descent: forget what was learned
        direction[bad] = -plain[bad]
        self._memory.forget(bad)
        expected = torch.maximum(-(direction * gradient).sum(1), (plain * gradient).sum(1))
        bound = 2 * self._tolerance * self._evaluation.value.abs().clamp(min=1e-12)
        self.minimum.gradient[self._active] = expected.clamp(min=0).sqrt()
        self.minimum.tolerance[self._active] = bound.sqrt()
        self.minimum.value[self._active] = self._evaluation.value
        self.minimum.converged[self._active] = expected <= bound
        near = expected <= looser * bound
        self._keep(~near, looser)
        return direction[~near]

    def _move(self, search: "_LineSearch", looser: float) -> None:
        """Take the steps that were found.

        A problem without one begins anew from where it is, without what it learned on the way; the
        second time it is rounding that stops it, and it leaves.
        """
        before, after = self._evaluation, search.best
        steps = search.points - self._points
        changes = after.gradient - before.gradient
        self.minimum.points[self._active] = search.points
        self.minimum.iterations[self._active] += 1
        self._evaluation = after
        self._memory.add(steps, changes)
        self.minimum.value[self._active] = after.value
        self._preconditioner.update(self._active, search.points, after)
        stuck = ~search.moved
        again = stuck & ~self._restarted[self._active]
        self._restarted[self._active[stuck]] = True
        self._restarted[self._active[~stuck]] = False
        self._memory.forget(again)
        self._preconditioner.reset(self._active[again])
        self._keep(~stuck | again, looser)

    def _keep(self, going: Tensor, looser: float) -> None:
        """Let the others leave; after a loose tolerance they wait."""
        if bool(going.all()):
            return
        for place in (~going).nonzero() if looser > 1 else ():
            waiting = self._evaluation.take(place), self._memory.take(place)
            self._waiting[int(self._active[place])] = waiting
        self._active = self._active[going]
        self._evaluation, self._memory = self._evaluation.take(going), self._memory.take(going)


class _Memory:
    """The last steps and changes of gradients: two loops give the inverse Hessian's product."""

    def __init__(self, pairs: Iterable[tuple[Tensor, Tensor, Tensor]] = ()) -> None:
        self._pairs = list(pairs)  # steps, changes, 1 / (s . y) or 0

    @classmethod
    def joined(cls, memories: Sequence["_Memory"]) -> "_Memory":
        """Return what some problems remember, one after the other; pairs that one lacks are 0."""
        longest = max((memory._pairs for memory in memories), key=len)
        nothing = [(0 * s[:1], 0 * y[:1], 0 * inverse[:1]) for s, y, inverse in longest]
        filled = [nothing[len(of._pairs) :] + of._pairs for of in memories]
        sides = [zip(*pairs, strict=True) for pairs in zip(*filled, strict=True)]
        return cls((torch.cat(s), torch.cat(y), torch.cat(inverse)) for s, y, inverse in sides)

    def add(self, steps: Tensor, changes: Tensor) -> None:
        product = (steps * changes).sum(1)
        sizes = steps.norm(dim=1) * changes.norm(dim=1)
        usable = product > 1e-12 * sizes
        inverse = torch.where(usable, 1 / product.where(usable, torch.ones_like(product)), 0.0)
        self._pairs = [*self._pairs[-_MEMORY + 1 :], (steps, changes, inverse)]

    def forget(self, which: Tensor) -> None:
        if bool(which.any()):
            self._pairs = [(s, y, inverse.where(~which, 0.0)) for s, y, inverse in self._pairs]

    def take(self, places: Tensor) -> "_Memory":
        return _Memory((s[places], y[places], inverse[places]) for s, y, inverse in self._pairs)

    def apply(self, gradient: Tensor, initial: Product) -> Tensor:
        """Return the inverse Hessian times the gradient, of each problem."""
        # The two loops of Nocedal (1980), from the newest pair to the oldest and back; a pair whose
        # 1 / (s . y) is 0, that of a problem which forgot it, leaves both as they are.
        shares = []
        for steps, changes, inverse in reversed(self._pairs):
            share = inverse * (steps * gradient).sum(1)
            gradient = gradient - share.unsqueeze(1) * changes
            shares.append(share)
        out = initial(gradient) * self._scale(initial)
        for (steps, changes, inverse), share in zip(self._pairs, reversed(shares), strict=True):
            back = inverse * (changes * out).sum(1)
            out = out + (share - back).unsqueeze(1) * steps
        return out

    def _scale(self, initial: Product) -> Float64[Tensor, "problems 1"] | float:
        """Return what fits the initial inverse Hessian to the last step (Shanno & Phua 1978)."""
        if not self._pairs:
            return 1.0
        _, changes, inverse = self._pairs[-1]
        scale = 1 / (inverse * (changes * initial(changes)).sum(1))
        return torch.where((scale > 0) & scale.isfinite(), scale, 1.0).unsqueeze(1)


class _LineSearch:
    """A step length for every problem, by bisection and quadratic interpolation.

    Attributes:
        open: places of the problems that still search.
        points: the best point of each problem.
        best: the evaluations there.
        moved: whether a step was found.
    """

    def __init__(self, points: Tensor, evaluation: Evaluation, direction: Tensor) -> None:
        self._from, self._direction, self._value = points, direction, evaluation.value
        self._slope = (evaluation.gradient * direction).sum(1)
        self.open = torch.arange(len(points), device=points.device)
        self.points = points.clone()
        curvature = None if evaluation.curvature is None else evaluation.curvature.clone()
        self.best = Evaluation(evaluation.value.clone(), evaluation.gradient.clone(), curvature)
        self.moved = torch.zeros_like(self.open, dtype=torch.bool)
        self._step = torch.ones_like(self._value)
        self._low = torch.zeros_like(self._value)
        self._high = torch.full_like(self._value, torch.inf)
        self._trials = 0

    def trial(self) -> Tensor:
        """Return the points to evaluate, of the problems that still search."""
        here = self.open
        return self._from[here] + self._step[here].unsqueeze(1) * self._direction[here]

    def note(self, evaluation: Evaluation) -> None:
        """Take in the evaluations of the trial points; close the searches that they end."""
        here, points = self.open, self.trial()
        step, value, slope = self._step[here], self._value[here], self._slope[here]
        new_slope = (evaluation.gradient * self._direction[here]).sum(1)
        noise = _NOISE * value.abs()
        enough = evaluation.value <= value + _ARMIJO * step * slope
        # Where rounding hides the decrease, the slope tells (Hager & Zhang 2005).
        close = (evaluation.value <= value + noise) & (new_slope <= -(1 - 2 * _ARMIJO) * slope)
        enough = (enough | close) & evaluation.value.isfinite()
        steep = enough & (new_slope < _WOLFE * slope)
        self._accept(here[enough], points[enough], evaluation.take(enough))
        self._high[here[~enough]] = step[~enough]
        self._low[here[steep]] = step[steep]
        self._step[here] = self._next(here, step, evaluation.value, value, slope)
        self._trials += 1
        self.open = here[~enough | steep] if self._trials < _MOST_TRIALS else here[:0]

    def _accept(self, places: Tensor, points: Tensor, evaluation: Evaluation) -> None:
        self.points[places] = points
        self.moved[places] = True
        self.best.value[places] = evaluation.value
        self.best.gradient[places] = evaluation.gradient
        if self.best.curvature is not None and evaluation.curvature is not None:
            self.best.curvature[places] = evaluation.curvature

    def _next(
        self, here: Tensor, step: Tensor, new: Tensor, value: Tensor, slope: Tensor
    ) -> Tensor:
        """Return the next step lengths: twice as far, or inside the interval that is known."""
        # While every step was good and the slope still steep, high is infinite: 1, 2, 4, ... A step
        # that was too long sets high. If no shorter one is known to be good (low is 0), value and
        # slope at 0 and the value at the step give a parabola, whose minimum is taken unless it is
        # within a tenth of either end; else the interval is halved.
        low, high = self._low[here], self._high[here]
        middle = torch.where(high.isinf(), 2 * step, (low + high) / 2)
        parabola = -slope * step.square() / (2 * (new - value - slope * step))
        inside = (low == 0) & high.isfinite() & (parabola > 0.1 * high) & (parabola < 0.9 * high)
        return torch.where(inside, parabola, middle)
