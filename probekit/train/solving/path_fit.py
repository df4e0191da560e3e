"""Solve along the path of strengths, and choose one of them; a decoder alone is fitted so."""

from abc import abstractmethod
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.base.tensors import full
from probekit.probe.fitters.linear_problems import (
    TRANSITIONS,
    LinearObjective,
    Problems,
    RidgeSums,
    weaker_strengths,
)
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import Minimum
from probekit.probe.fitters.preconditioner import Basis, BasisBuilder, Scale
from probekit.probe.normalization.standardization import Moments
from probekit.train.solving.solved_fit import Objective, Solved, SolvedFit, Visit, Visits, drive
from probekit.train.source import Inputs

Decoders = tuple[
    Float64[Tensor, "parts k w"], Float64[Tensor, "parts k"], Float64[Tensor, "parts e"]
]
"""Weights and biases for rows as they came, and the loss's own values."""


class Path:
    """Strengths of L2 that were tried, falling, with their solutions and scores.

    Attributes:
        scores: of every strength, on what chooses.
    """

    def __init__(self, fixed: float | None, better: Callable[[float], float]) -> None:
        """Start without a strength.

        Args:
            fixed: the only strength that is tried; None tries those of the whole path.
            better: returns a score that rises with what it is a score of.
        """
        self._fixed, self._better = fixed, better
        self._stretches: list[Solved] = []
        self.scores: list[float] = []

    def solve(
        self,
        solve: Callable[[tuple[float, ...]], Generator[Visit, None, Solved]],
        score: Callable[[Solved], Generator[Visit, None, list[float]]],
    ) -> Visits:
        """Solve stretch after stretch, until the best strength is not the weakest that was tried.

        Args:
            solve: returns the solutions of some strengths.
            score: returns the score of each of them.
        """
        strengths = weaker_strengths(()) if self._fixed is None else (self._fixed,)
        while strengths:
            solved = yield from solve(strengths)
            self._stretches.append(solved)
            self.scores += yield from score(solved)
            goes_on = self._fixed is None and self._best == len(self.strengths) - 1
            strengths = weaker_strengths(self.strengths) if goes_on else ()

    @property
    def strengths(self) -> list[float]:
        """All that were tried."""
        return [strength for solved in self._stretches for strength in solved.strengths]

    @property
    def chosen(self) -> tuple[Solved, int]:
        """The stretch and the place in it of the best score, the strongest of equals."""
        # Stretches of 6 and 2 strengths: place 7 of all is place 1 of the second.
        pairs = [(solved, n) for solved in self._stretches for n in range(len(solved.strengths))]
        return pairs[self._best]

    @property
    def score(self) -> float:
        """The best score."""
        return self.scores[self._best]

    @property
    def strength(self) -> float:
        """The strength that was chosen."""
        return self.strengths[self._best]

    @property
    def edge(self) -> str | None:
        """Which end of the path was chosen, where no other strength is as good."""
        ends = {0: "strongest", len(self.scores) - 1: "weakest"}
        return ends.get(self._best) if self.scores.count(self.score) == 1 else None

    @property
    def _best(self) -> int:
        return int(np.argmax([self._better(score) for score in self.scores]))


class PathFit(SolvedFit):
    """One member solved for all strengths of the path; its selection chooses one.

    Attributes:
        path: what was tried.
    """

    path: Path

    @abstractmethod
    def prepare(self) -> Visits:
        """Look at the rows, and turn them into a basis."""

    @abstractmethod
    def solve(self, problems: Problems) -> Generator[Visit, None, tuple[Objective, Minimum]]:
        """Solve some problems."""

    @abstractmethod
    def load(self, solved: Solved, index: int) -> None:
        """Put a solution into the member.

        Args:
            solved: a stretch.
            index: of the strength in it.
        """

    def visits(self) -> Visits:
        """Solve along the path, and load what was chosen."""
        self.path = Path(self.member.spec.l2, self.better)
        yield from self.prepare()
        yield from self.path.solve(self._stretch, self.scores)
        self.load(*self.path.chosen)
        self.member.solved = self.diagnosis

    def _stretch(self, strengths: tuple[float, ...]) -> Generator[Visit, None, Solved]:
        objective, minimum = yield from self.solve(self.problems(strengths))
        return Solved(strengths, objective, minimum)

    @property
    def best_score(self) -> float | None:
        """The best score so far on what chooses; None before the first, or without any."""
        if not self.path.scores or self.member.spec.select is None:
            return None
        return self.path.score

    @property
    def diagnosis(self) -> dict[str, Any]:
        """What a record says of what was chosen."""
        solved, index = self.path.chosen
        diagnosis = solved.said(index)
        if self.member.spec.select is None:
            return diagnosis
        if self.path.edge is not None:
            diagnosis["edge"] = self.path.edge
        tried = {"strengths": self.path.strengths, "strength_scores": [*self.path.scores]}
        return diagnosis | tried | {"selection_score": self.path.score}


class LinearFit(PathFit):
    """A decoder alone, on what a head that trains nothing makes of the rows.

    These are standardised inside the fit, so that their scale moves no score.
    """

    row_axis = 0
    _basis: Basis

    @property
    def width(self) -> int:
        """Width of h."""
        return self.member.probe.head.width

    def read(self, inputs: Inputs) -> Float[Tensor, "n width"]:
        """Return what a head that trains nothing makes of a block: h."""
        z = inputs.of(self.member.normalization, self.member.spec.layers)
        return full(self.member.probe.head(z))

    def prepare(self) -> Visits:
        """Find mean and deviation of every channel, and the components of what they leave."""
        moments = Moments()
        yield Visit("train", lambda rows, h: moments.add(h.unsqueeze(1)))
        mean, deviation = (value.squeeze(0) for value in moments.result())
        scale = Scale.of(mean, deviation)
        builder = BasisBuilder(scale, len(self.rows.view("train")))
        if builder.reads:
            yield Visit("train", lambda rows, h: builder.add(h))
        self._basis = builder.finish()
        self.rows.turn(self._basis.apply)

    def objective(
        self, loss: Loss, problems: Problems, extra_l2: float = TRANSITIONS
    ) -> LinearObjective:
        """Return the objective of a linear layer."""
        return LinearObjective(loss, problems, self._basis.spectrum, extra_l2=extra_l2)

    def solve(self, problems: Problems) -> Generator[Visit, None, tuple[Objective, Minimum]]:
        """Solve problems by L-BFGS, or at once."""
        objective = self.objective(self.target.loss, problems)
        if self.member.spec.fitter == "ridge":
            ridge = RidgeSums(problems, self.target.values)
            yield Visit("train", ridge.add)
            return objective, ridge.finish()
        minimum = yield from drive(objective.minimise(), objective.begin)
        return objective, minimum

    def load(self, solved: Solved, index: int) -> None:
        """Put weights for rows as they came into the decoder."""
        self.target.load(*(values[0] for values in self.decoders(solved, index)))

    def decoders(self, solved: Solved, index: int) -> Decoders:
        """Return what was found on every part of the rows, that on all of them first."""
        objective = solved.objective
        assert isinstance(objective, LinearObjective)
        weight, bias, extra = objective.unpack(solved.of_parts(index))
        return *self._basis.folded(weight, bias), extra
