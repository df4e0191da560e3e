"""Solve along the path of strengths, and choose one of them; a decoder alone is fitted so."""

from abc import abstractmethod
from collections.abc import Generator
from typing import Any

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.base.numbers.precision import full
from probekit.probe.fitters.basis import Basis, BasisBuilder, Scale
from probekit.probe.fitters.linear_problems import (
    TRANSITIONS,
    LinearObjective,
    Problems,
    RidgeSums,
    weaker_strengths,
)
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import Minimum
from probekit.probe.normalization.standardization import Moments
from probekit.train.solving.solved_fit import Objective, Solved, SolvedFit, drive
from probekit.train.solving.split_rows import Visit, Visits
from probekit.train.source import Inputs

Decoders = tuple[
    Float64[Tensor, "parts k w"], Float64[Tensor, "parts k"], Float64[Tensor, "parts e"]
]
"""Weights and biases for rows as they came, and the loss's own values."""


class PathFit(SolvedFit):
    """One member solved for all strengths of the path; its selection chooses one."""

    @abstractmethod
    def prepare(self) -> Visits:
        """Look at the rows, and turn them into a basis."""

    @abstractmethod
    def solve(self, problems: Problems) -> Generator[Visit, None, tuple[Objective, Minimum]]:
        """Solve some problems."""

    @abstractmethod
    def load(self, solved: Solved, place: int) -> None:
        """Put a solution into the member.

        Args:
            solved: a stretch.
            place: of the strength in it.
        """

    def visits(self) -> Visits:
        """Solve along the path until the best strength is not its last, and load that one."""
        self._scores: list[float] = []
        self._stretches: list[Solved] = []
        yield from self.prepare()
        fixed = self.member.spec.l2
        strengths = weaker_strengths(()) if fixed is None else (fixed,)
        while strengths:
            objective, minimum = yield from self.solve(self.problems(strengths))
            solved = Solved(strengths, objective, minimum)
            self._stretches.append(solved)
            self._scores += yield from self.scores(solved)
            goes_on = fixed is None and self._best == len(self._tried) - 1
            strengths = weaker_strengths(self._tried) if goes_on else ()
        self.load(*self.chosen)
        self.member.solved = self.diagnosis

    @property
    def chosen(self) -> tuple[Solved, int]:
        """The stretch and the place in it that were chosen."""
        # Stretches of 6 and 2 strengths: place 7 of all is place 1 of the second.
        pairs = [(solved, n) for solved in self._stretches for n in range(len(solved.strengths))]
        return pairs[self._best]

    @property
    def score(self) -> float:
        """The score by which it was chosen."""
        return self._scores[self._best]

    @property
    def strength(self) -> float:
        """The strength that was chosen."""
        return self._tried[self._best]

    @property
    def best_score(self) -> float | None:
        """The best score so far on what chooses; None before the first, or without any."""
        if not self._scores or self.member.spec.select is None:
            return None
        return self.score

    @property
    def _tried(self) -> list[float]:
        return [one for solved in self._stretches for one in solved.strengths]

    @property
    def _best(self) -> int:
        """The place of the best score, the first of equals."""
        return int(np.argmax([self.better(own) for own in self._scores]))

    @property
    def diagnosis(self) -> dict[str, Any]:
        """What a record says of what was chosen."""
        solved, place = self.chosen
        found, strengths, scores = solved.said(place), self._tried, self._scores
        if self.member.spec.select is None:
            return found
        ends = {0: "strongest", len(strengths) - 1: "weakest"}
        if self._best in ends and scores.count(self.score) == 1:
            found["edge"] = ends[self._best]
        tried = {"strengths": strengths, "strength_scores": [*scores]}
        return found | tried | {"selection_score": self.score}


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

    def load(self, solved: Solved, place: int) -> None:
        """Put weights for rows as they came into the decoder."""
        self.target.load(*(one[0] for one in self.decoders(solved, place)))

    def decoders(self, solved: Solved, place: int) -> Decoders:
        """Return what was found on every part of the rows, that on all of them first."""
        objective = solved.objective
        assert isinstance(objective, LinearObjective)
        weight, bias, extra = objective.unpack(solved.of_parts(place))
        return *self._basis.folded(weight, bias), extra
