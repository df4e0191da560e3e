"""Solve along the path of strengths, and choose one of them: what all fits to the optimum share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from probekit.features import FeatureView
from probekit.probe.fitters.linear_problems import (
    TRANSITIONS,
    LinearObjective,
    Pass,
    Problems,
    weaker_strengths,
)
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import Minimisation, Minimum, Request
from probekit.probe.fitters.mixtures import MixtureObjective, MixturePass
from probekit.train.dev_folds import DevFolds
from probekit.train.member import Checkpoint, Member
from probekit.train.sampling import make_parts
from probekit.train.scoring import ScoredSplit, gold_of
from probekit.train.solving.fitted_targets import FittedTargets
from probekit.train.solving.split_rows import SplitName, SplitRows, Visit, Visits
from probekit.train.source import Inputs, Source

Objective = LinearObjective | MixtureObjective

Scores = tuple[float, ...]
"""Of a solution on what chooses; under nested selection, then on dev without each of its folds."""


@dataclass(frozen=True, eq=False)
class Solved:
    """The problems of one stretch of the path, and their solutions.

    Attributes:
        strengths: of L2, falling.
        objective: of all problems: part by part, and strength by strength in each.
        minimum: where they ended.
    """

    strengths: tuple[float, ...]
    objective: Objective
    minimum: Minimum


class PathFit(ABC):
    """One member solved for all strengths of the path; its selection chooses one.

    Attributes:
        member: what is fitted.
        rows: what it reads of train and of what judges.
        target: what is predicted.
        row_axis: of the rows in what it reads.
    """

    row_axis: ClassVar[int]

    def __init__(
        self,
        member: Member,
        sources: Mapping[SplitName, Source],
        *,
        judge: ScoredSplit,
        folds: DevFolds | None = None,
        memory: int,
    ) -> None:
        """Prepare the problems.

        Args:
            member: what is fitted.
            sources: what its head reads of train and of what judges.
            judge: the split that chooses where the member's selection says that one does; with the
                metric that chooses in any case.
            folds: of that split, where the selection is nested: for each a strength is chosen.
            memory: bytes that the rows may take.

        Raises:
            OptionError: there is nothing to tell apart, or nothing that can choose.
        """
        self.member, self._judge, self._metric = member, judge, judge.metric
        self._folds = folds
        rows = SplitRows(sources, self.read, axis=self.row_axis, width=self.width, memory=memory)
        self.rows, view = rows, rows.view("train")
        self.target = FittedTargets(member, view, self.rows.device)
        self._parts = make_parts(view, member.spec.select)
        self._scores: list[Scores] = []
        self._chosen: dict[int, int] = {}
        self._stretches: list[Solved] = []

    @property
    @abstractmethod
    def width(self) -> int:
        """Values of a row."""

    @abstractmethod
    def read(self, inputs: Inputs) -> Tensor:
        """Return what is fitted to: the rows of a block, as they are."""

    @abstractmethod
    def prepare(self) -> Visits:
        """Look at the rows, and turn them into a basis."""

    @abstractmethod
    def objective(self, loss: Loss, problems: Problems, extra_l2: float = TRANSITIONS) -> Objective:
        """Return what is minimised: a loss, with L2 of some strength on values of its own."""

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

    def refine(
        self, solved: Solved, place: int, judge: int
    ) -> Generator[Visit, None, tuple[Solved, int, dict[str, Any]]]:
        """Look for a better solution of the strength that was chosen.

        Args:
            solved: a stretch.
            place: of the strength in it.
            judge: what chose it, a place in ``Scores``.

        Returns:
            What is to be loaded, and what else a record says of it.
        """
        yield from ()
        return solved, place, {}

    def visits(self) -> Visits:
        """Solve along the path until the best strength is not its last, and load that one."""
        yield from self.prepare()
        fixed = self.member.spec.l2
        strengths = weaker_strengths(()) if fixed is None else (fixed,)
        while strengths:
            objective, minimum = yield from self.solve(self.problems(strengths))
            solved = Solved(strengths, objective, minimum)
            self._stretches.append(solved)
            self._scores += yield from self.score(solved)
            self._choose(last=fixed is not None)
            goes_on = len(self._chosen) < self._n_judges
            strengths = weaker_strengths(self._tried) if goes_on else ()
            if not strengths:
                self._choose(last=True)
        # Stretches of 6 and 2 strengths: place 7 of all is place 1 of the second.
        pairs = [(solved, n) for solved in self._stretches for n in range(len(solved.strengths))]
        states = []
        for judge in reversed(range(self._n_judges)):  # what all of dev chooses is loaded last
            chosen = pairs[self._chosen[judge]]
            solved, place, beside = yield from self.refine(*chosen, judge)
            self.load(solved, place)
            if judge:
                state = self.member.probe.state_dict()
                states.append({name: value.clone() for name, value in state.items()})
        self.member.by_fold = [Checkpoint(0, {}, np.empty(0), one) for one in reversed(states)]
        self.member.solved = self._diagnosis(solved.minimum, place) | beside

    @property
    def _n_judges(self) -> int:
        return 1 if self._folds is None else 1 + self._folds.count

    def _choose(self, *, last: bool) -> None:
        """Note the best place for every judge whose best is not the last place, as it may be next.

        Each goes by its own scores alone: how far others look is not its business.

        Args:
            last: no weaker strength follows.
        """
        for judge in range(self._n_judges):
            best = self.best_of(self._scores, judge)
            if judge not in self._chosen and (last or best < len(self._tried) - 1):
                self._chosen[judge] = best

    def problems(self, strengths: tuple[float, ...]) -> Problems:
        """Return the problems of all parts for some strengths."""
        lengths = self.rows.view("train").lengths
        seen = torch.from_numpy(self._parts.seen.repeat(lengths, axis=1)).float()
        return Problems.of(strengths, seen.to(self.rows.device))

    def score(self, solved: Solved) -> Generator[Visit, None, list[Scores]]:
        """Return the scores of each solution on what chooses; 0 where nothing is chosen."""
        select = self.member.spec.select
        if select is None:
            return [(0.0,)] * len(solved.strengths)
        if self._metric.consumes == "losses":
            return (yield from self._losses(solved))
        predicted = yield from self._predict(solved, "judge" if select.by_split else "train")
        scorer = self._judge.scorer
        if not select.by_split:
            view, judges = self.rows.view("train"), np.flatnonzero(self._parts.judged)
            scorer = self._metric(gold_of(view.take(judges), self._metric))
            predicted = predicted[:, torch.from_numpy(view.places(judges))]
        named = [self.target.named(own) for own in predicted]
        by_fold = [() if self._folds is None else self._folds.scores(own) for own in named]
        whole = [scorer.score(own)[self._metric.name] for own in named]
        return [(one, *folds) for one, folds in zip(whole, by_fold, strict=True)]

    def _predict(
        self, solved: Solved, split: SplitName
    ) -> Generator[Visit, None, Shaped[Tensor, "strengths n"]]:
        """Return what each solution predicts of a split; of a drawn row, that which did not see it.

        Rows that no part judges are predicted by the fit to all of them.
        """
        view, n_strengths = self.rows.view(split), len(solved.strengths)
        # Three strengths and two folds are nine problems: those that see all rows are 0 to 2, those
        # without the first fold 3 to 5. A row of the second fold, part 2, is predicted by 6 to 8.
        parts = self._parts.judged if split == "train" else np.zeros(view.n_examples, np.int64)
        row_parts = torch.from_numpy(np.repeat(parts, view.lengths))
        points = solved.minimum.points
        points = points if split == "train" else points[:n_strengths]
        found: list[Tensor] = []

        def add(rows: slice, z: Tensor) -> None:
            predicted = solved.objective.predict(points, z, _offsets_of(view, rows, z.device))
            judged = row_parts[rows].to(predicted.device).expand(1, n_strengths, -1)
            by_part = predicted.view(-1, n_strengths, predicted.shape[1])
            found.append(by_part.gather(0, judged).squeeze(0))

        yield Visit(split, add)
        return torch.cat(found, 1)

    def _losses(self, solved: Solved) -> Generator[Visit, None, list[Scores]]:
        """Return the mean loss of what judges under each solution."""
        loss, parts = self.target.elsewhere(self.rows.view("judge"))
        points = solved.minimum.points[: len(solved.strengths)]
        which = torch.arange(len(points), device=points.device)
        problems = Problems(0.0 * points[:, 0], torch.zeros_like(which), parts)
        found = self.objective(loss, problems, extra_l2=0.0).begin(Request(which, points))
        yield Visit("judge", found.add)
        return [(value,) for value in found.finish().value.tolist()]

    @property
    def best_score(self) -> float | None:
        """The best score so far on what chooses; None before the first, or without any."""
        if not self._scores or self.member.spec.select is None:
            return None
        return self._scores[self.best_of(self._scores)][0]

    @property
    def _tried(self) -> list[float]:
        return [one for solved in self._stretches for one in solved.strengths]

    def best_of(self, scores: Sequence[Scores], judge: int = 0) -> int:
        """Return the place of the best score of a judge, the first of equals."""
        sign = self._metric.scale.sign
        return int(np.argmax([sign * own[judge] for own in scores]))

    def _diagnosis(self, minimum: Minimum, place: int) -> dict[str, Any]:
        """Return what a record says of the fit."""
        strengths, best = self._tried, self._chosen[0]
        whole = [own[0] for own in self._scores]
        found: dict[str, Any] = {
            "converged": bool(minimum.converged[place]),
            "iterations": int(minimum.iterations[place]),
            "gradient": float(minimum.gradient[place]),
            "tolerance": float(minimum.tolerance[place]),
            "objective": float(minimum.value[place]),
            "strength": strengths[best],
        }
        if self.member.spec.select is None:
            return found
        ends = {0: "strongest", len(strengths) - 1: "weakest"}
        if best in ends and whole.count(whole[best]) == 1:
            found["edge"] = ends[best]
        if self._folds is not None:
            chosen = (self._chosen[judge] for judge in range(1, self._n_judges))
            found["fold_strengths"] = [strengths[place] for place in chosen]
        scores = {"strengths": strengths, "strength_scores": whole}
        return found | scores | {"selection_score": whole[best]}


def _offsets_of(view: FeatureView, rows: slice, device: torch.device) -> Tensor:
    """Return the bounds of the examples that a block of rows is made of, from 0 on."""
    first, last = np.searchsorted(view.offsets, [rows.start, rows.stop])
    bounds = view.offsets[first : last + 1] - rows.start
    return torch.from_numpy(bounds).to(device)


def drive(
    minimisation: Minimisation, begin: Callable[[Request], Pass | MixturePass]
) -> Generator[Visit, None, Minimum]:
    """Run a minimisation, each of its evaluations a visit to the rows of train.

    Args:
        minimisation: asks for evaluations.
        begin: returns an evaluation to which rows can be added.
    """
    try:
        request = next(minimisation)
        while True:
            found = begin(request)
            yield Visit("train", found.add)
            request = minimisation.send(found.finish())
    except StopIteration as end:
        minimum: Minimum = end.value
        return minimum
