"""Solve along the path of strengths, and choose one of them; a decoder alone is fitted so."""

from abc import abstractmethod
from collections.abc import Generator
from functools import partial
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
from probekit.train.solving.solved_fit import Objective, Scores, Solved, SolvedFit, drive
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
        self._scores: list[Scores] = []
        self._chosen: dict[int, int] = {}
        self._stretches: list[Solved] = []
        yield from self.prepare()
        fixed = self.member.spec.l2
        strengths = weaker_strengths(()) if fixed is None else (fixed,)
        while strengths:
            objective, minimum = yield from self.solve(self.problems(strengths))
            solved = Solved(strengths, objective, minimum)
            self._stretches.append(solved)
            self._scores += yield from self.scores(solved)
            self._choose(last=fixed is not None)
            goes_on = len(self._chosen) < self.n_judges
            strengths = weaker_strengths(self._tried) if goes_on else ()
            if not strengths:
                self._choose(last=True)
        self.settle([partial(self.load, *self.chosen(judge)) for judge in range(self.n_judges)])
        self.member.solved = self.diagnosis(0)

    def chosen(self, judge: int) -> tuple[Solved, int]:
        """Return the stretch and the place in it that a judge chose."""
        # Stretches of 6 and 2 strengths: place 7 of all is place 1 of the second.
        pairs = [(solved, n) for solved in self._stretches for n in range(len(solved.strengths))]
        return pairs[self._chosen[judge]]

    def score(self, judge: int) -> float:
        """Return the score by which a judge chose."""
        return self._scores[self._chosen[judge]][judge]

    def strength(self, judge: int) -> float:
        """Return the strength that a judge chose."""
        return self._tried[self._chosen[judge]]

    def _choose(self, *, last: bool) -> None:
        """Note the best place for every judge whose best is not the last place, as it may be next.

        Each goes by its own scores alone: how far others look is not its business.

        Args:
            last: no weaker strength follows.
        """
        for judge in range(self.n_judges):
            best = self._best(judge)
            if judge not in self._chosen and (last or best < len(self._tried) - 1):
                self._chosen[judge] = best

    @property
    def best_score(self) -> float | None:
        """The best score so far on what chooses; None before the first, or without any."""
        if not self._scores or self.member.spec.select is None:
            return None
        return self._scores[self._best(0)][0]

    @property
    def _tried(self) -> list[float]:
        return [one for solved in self._stretches for one in solved.strengths]

    def _best(self, judge: int) -> int:
        """Return the place of the best score of a judge, the first of equals."""
        return int(np.argmax([self.better(own[judge]) for own in self._scores]))

    def diagnosis(self, judge: int) -> dict[str, Any]:
        """Return what a record says of what a judge chose."""
        solved, place = self.chosen(judge)
        found, strengths, best = solved.said(place), self._tried, self._chosen[judge]
        whole = [own[judge] for own in self._scores]
        if self.member.spec.select is None:
            return found
        ends = {0: "strongest", len(strengths) - 1: "weakest"}
        if best in ends and whole.count(whole[best]) == 1:
            found["edge"] = ends[best]
        if self._folds is not None:
            chosen = (self._chosen[judge] for judge in range(1, self.n_judges))
            found["fold_strengths"] = [strengths[place] for place in chosen]
        scores = {"strengths": strengths, "strength_scores": whole}
        return found | scores | {"selection_score": whole[best]}


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
