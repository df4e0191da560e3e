"""The path of strengths of L2: which are tried, which are left, and which one is chosen."""

import itertools
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.probe.fitters.linear_problems import LinearObjective, Problems, weaker_strengths
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import TOLERANCE
from probekit.train.solving.solved_fit import HELD_ROWS, Solved, Visit, Visits

LOOSER = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)
"""Tolerances at which strengths that are behind are left."""

LARGE = 2e7
"""Products of one evaluation of a problem from which leaving some saves more than scores cost."""


@dataclass(eq=False)
class _Tried:
    """A strength of L2.

    Attributes:
        solved: what holds its problems.
        place: of the strength there.
        score: of where they are, on what chooses; NaN before the first.
        moved: how far the score went with the last step.
        reached: tolerance up to which they are solved.
    """

    solved: Solved
    place: int
    score: float = math.nan
    moved: float = math.inf
    reached: float = math.inf


class Path:
    """Strengths of L2 that were tried, falling, with their solutions and scores.

    Of large problems all are solved loosely, and fewer and fewer more closely: a strength is left
    where its score is behind the best by more than 2/n, with n examples, and more than both moved
    with their last steps. It goes on if the best falls back. The chosen one is solved to the end,
    on every part of the rows.
    """

    def __init__(
        self,
        fixed: float | None,
        better: Callable[[float], float],
        n_judged: int,
        n_products: int,
    ) -> None:
        """Start without a strength.

        Args:
            fixed: the only strength that is tried; None tries those of the whole path.
            better: returns a score that rises with what it is a score of.
            n_judged: examples that scores are of.
            n_products: of an evaluation of one problem: rows x width x logits.
        """
        self._fixed, self._better, self._slack = fixed, better, 2 / max(n_judged, 1)
        self._looser = LOOSER if fixed is None and n_products >= LARGE else ()
        self._tried: list[_Tried] = []
        self._going: list[_Tried] = []

    def solve(
        self,
        begin: Callable[[tuple[float, ...]], Generator[Visit, None, Solved]],
        score: Callable[[Solved], Generator[Visit, None, list[float]]],
    ) -> Visits:
        """Solve all strengths, weaker ones as well while the weakest that was tried is the best.

        Args:
            begin: returns the problems of some strengths.
            score: returns the score of each of them.
        """
        strengths = weaker_strengths(()) if self._fixed is None else (self._fixed,)
        while strengths:
            solved = yield from begin(strengths)
            joining = [_Tried(solved, place) for place in range(len(strengths))]
            self._tried += joining
            self._going += joining
            for tolerance in () if solved.descent is None else self._looser:
                yield from self._go_on(tolerance, score)
                self._choose()
            while any(one.reached > TOLERANCE for one in self._going):
                yield from self._go_on(TOLERANCE, score)
                self._choose()
            at_end = self._fixed is None and self._best is self._tried[-1]
            strengths = weaker_strengths(self.strengths) if at_end else ()
        for one in self._tried:
            one.solved = one.solved.done()

    def _go_on(
        self,
        tolerance: float,
        score: Callable[[Solved], Generator[Visit, None, list[float]]],
    ) -> Visits:
        """Solve those that are further from their solutions than a tolerance, and score them."""
        further = [one for one in self._going if one.reached > tolerance]
        for solved, alike in itertools.groupby(further, key=lambda one: one.solved):
            some = [*alike]
            places = [one.place for one in some]
            stepped = yield from solved.go_on(places, tolerance / TOLERANCE)
            scores = yield from score(solved.only(places))
            for one, has_stepped, value in zip(some, stepped, scores, strict=True):
                if tolerance == TOLERANCE:
                    one.moved = 0.0
                elif has_stepped and one.reached < math.inf:
                    one.moved = abs(value - one.score)
                one.score, one.reached = value, tolerance

    def _choose(self) -> None:
        """Let those go on that may be the best, among them what was left before."""
        best = self._best
        least = self._better(best.score) - best.moved - self._slack
        self._going = [
            one
            for one in self._tried
            if one is best or not self._better(one.score) + one.moved < least  # NaN goes on
        ]

    @property
    def scores(self) -> list[float]:
        """Of every strength, on what chooses: of one that was left, where it was left."""
        return [one.score for one in self._tried if one.reached < math.inf]

    @property
    def strengths(self) -> list[float]:
        """All that were tried."""
        return [one.solved.strengths[one.place] for one in self._tried]

    @property
    def chosen(self) -> tuple[Solved, int]:
        """The stretch and the place in it of the best score, the strongest of equals."""
        best = self._best
        return best.solved, best.place

    @property
    def score(self) -> float:
        """The best score."""
        return self._best.score

    @property
    def strength(self) -> float:
        """The strength that was chosen."""
        solved, place = self.chosen
        return solved.strengths[place]

    @property
    def edge(self) -> str | None:
        """Which end of the path was chosen, where no other strength is as good."""
        ends = {id(self._tried[0]): "strongest", id(self._tried[-1]): "weakest"}
        return ends.get(id(self._best)) if self.scores.count(self.score) == 1 else None

    @property
    def _best(self) -> _Tried:
        scored = [one for one in self._going if one.reached < math.inf]
        return scored[int(np.argmax([self._better(one.score) for one in scored]))]


def solve_rows(
    z: Float[Tensor, "n r"],
    loss: Loss,
    parts: Float[Tensor, "parts n"],
    spectrum: Float64[Tensor, " r"],
    *,
    l2: float | None,
    score: Callable[[Solved], list[float]],
    n_judged: int,
) -> Path:
    """Solve linear layers over rows in memory, along the path of strengths or at one.

    Args:
        z: rows in a basis.
        loss: of the rows.
        parts: weight of each row in each part of them, see `Problems.of`.
        spectrum: mean square of each column.
        l2: the only strength; None tries those of the whole path.
        score: returns a score of each solution, the higher the better.
        n_judged: rows that it is of.
    """

    def begin(strengths: tuple[float, ...]) -> Generator[Visit, None, Solved]:
        yield from ()
        return Solved.begun(
            strengths, LinearObjective(loss, Problems.of(strengths, parts), spectrum)
        )

    def scored(solved: Solved) -> Generator[Visit, None, list[float]]:
        yield from ()
        return score(solved)

    path = Path(l2, float, n_judged, z.numel() * loss.n_logits)
    for visit in path.solve(begin, scored):
        for start in range(0, len(z), HELD_ROWS):
            block = z[start : start + HELD_ROWS]
            visit.take(slice(start, start + len(block)), block)
    return path
