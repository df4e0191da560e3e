"""A decoder solved on what a head that trains nothing makes of the rows."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from probekit.decoders.regression import RegressionDecoder
from probekit.features import FeatureView
from probekit.fitters.basis import Basis, BasisBuilder, Scale
from probekit.fitters.chains import ChainLoss
from probekit.fitters.closed_form import Ridge
from probekit.fitters.linear import LinearObjective, Problems
from probekit.fitters.losses import Binary, Loss, Softmax, Squares
from probekit.fitters.minimise import Minimum
from probekit.fitters.path import TRANSITIONS, first_strengths, weaker_strengths
from probekit.heads.moments import Moments
from probekit.metrics import Metric, Scorer
from probekit.train.member import Member
from probekit.train.parts import Parts, check_two_classes, make_parts
from probekit.train.scoring import ScoredSplit, gold_of
from probekit.train.solver import HeadRows, Visit, Visits, offsets_of


@dataclass(frozen=True, eq=False)
class Solved:
    """The problems of one stretch of the path, and their solutions.

    Attributes:
        strengths: of L2, falling.
        objective: of all problems: part by part, and strength by strength in each.
        minimum: where they ended.
    """

    strengths: tuple[float, ...]
    objective: LinearObjective
    minimum: Minimum

    def at(self, place: int) -> Float64[Tensor, "1 values"]:
        """Return the solution of a strength, over all drawn rows."""
        return self.minimum.points[place : place + 1]


class Target:
    """What is fitted: the classes that were drawn, or numbers in standard units.

    Attributes:
        loss: of the drawn rows.
        values: number of each row's class among those that were drawn, or its number.
    """

    def __init__(self, member: Member, rows: HeadRows, device: torch.device) -> None:
        """Look at the drawn targets.

        Raises:
            OptionError: one class was drawn.
        """
        view = rows.view("train")
        self._decoder = member.probe.decoder
        targets = torch.from_numpy(view.targets).to(device)
        self._present = targets[:0]
        self.loss: Loss
        if isinstance(self._decoder, RegressionDecoder):
            self.values = (targets - self._decoder.mean) / self._decoder.deviation
            self.loss = Squares(self.values)
            return
        check_two_classes(view)
        self._present, self.values = torch.unique(targets, return_inverse=True)
        n_classes = len(self._present)
        if member.spec.decoder.objective == "chain":
            bounds = torch.from_numpy(view.offsets).to(device)
            self.loss = ChainLoss(self.values, n_classes, bounds)
        else:
            two = n_classes == 2
            self.loss = Binary(self.values) if two else Softmax(self.values, n_classes)

    def named(self, predicted: Tensor) -> np.ndarray:
        """Return predictions as metrics take them: class numbers, or numbers in their unit."""
        if isinstance(self._decoder, RegressionDecoder):
            values = predicted.double() * self._decoder.deviation + self._decoder.mean
            return np.asarray(values.cpu().numpy())
        return np.asarray(self._present[predicted].cpu().numpy())

    def load(
        self,
        weight: Float64[Tensor, "k w"],
        bias: Float64[Tensor, " k"],
        extra: Float64[Tensor, " extra"],
    ) -> None:
        """Put a solution for rows as they came into the member's decoder."""
        if isinstance(self.loss, Binary):
            weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
        chain: Sequence[Tensor] = ()
        if isinstance(self.loss, ChainLoss):
            chain = [part[0] for part in self.loss.split(extra.unsqueeze(0))]
        self._decoder.load(weight, bias, self._present, chain)


class LinearFit:
    """One member's decoder, solved for all strengths of the path; the selection chooses one."""

    def __init__(self, member: Member, rows: HeadRows, *, metric: Metric, dev: ScoredSplit) -> None:
        """Prepare the problems.

        Args:
            member: trains its decoder alone.
            rows: what its head makes of train and dev.
            metric: chooses among the strengths.
            dev: the split that chooses where the member's selection says so.
        """
        self.member, self.rows = member, rows
        self._metric, self._dev = metric, dev
        self._device = next(iter(rows.sources.values())).rows.device
        self._target = Target(member, rows, self._device)
        self._parts: Parts = make_parts(rows.view("train"), member.spec.select)
        lengths = rows.view("train").lengths
        self.row_parts = torch.from_numpy(np.repeat(self._parts.judged, lengths))
        self.named = self._target.named
        self._scores: list[float] = []
        self._stretches: list[Solved] = []

    def visits(self) -> Visits:
        """Solve along the path until the best strength is not its last, and load that one."""
        basis = yield from self._find_basis()
        fixed = self.member.spec.l2
        strengths = first_strengths() if fixed is None else (fixed,)
        while strengths:
            solved = yield from self._solve(basis, strengths)
            self._stretches.append(solved)
            yield from self._score(solved)
            tried = [one for stretch in self._stretches for one in stretch.strengths]
            goes_on = fixed is None and self._best == len(tried) - 1
            strengths = weaker_strengths(tried) if goes_on else ()
        self._finish(basis)

    def _find_basis(self) -> Generator[Visit, None, Basis]:
        moments = Moments()
        yield Visit("train", lambda rows, h: moments.add(h.unsqueeze(1)))
        mean, deviation = (value.squeeze(0) for value in moments.result())
        builder = BasisBuilder(Scale.of(mean, deviation), len(self.rows.view("train")))
        if builder.reads:
            yield Visit("train", lambda rows, h: builder.add(h))
        basis = builder.finish()
        self.rows.turn(basis)
        return basis

    def _solve(self, basis: Basis, strengths: tuple[float, ...]) -> Generator[Visit, None, Solved]:
        view = self.rows.view("train")
        seen = torch.from_numpy(self._parts.seen.repeat(view.lengths, axis=1))
        problems = Problems.of(strengths, seen.float().to(self._device))
        objective = LinearObjective(
            self._target.loss, problems, basis.spectrum, extra_l2=TRANSITIONS
        )
        if self.member.spec.fitter == "ridge":
            ridge = Ridge(problems, self._target.values)
            yield Visit("train", ridge.add)
            return Solved(strengths, objective, ridge.finish())
        minimisation = objective.minimise()
        request = next(minimisation)
        while True:
            found = objective.begin(request)
            yield Visit("train", found.add)
            try:
                request = minimisation.send(found.finish())
            except StopIteration as end:
                return Solved(strengths, objective, end.value)

    def _score(self, solved: Solved) -> Visits:
        """Add the score of each strength on what chooses; 0 where there is nothing to choose."""
        select = self.member.spec.select
        if select is None:
            self._scores += [0.0] * len(solved.strengths)
        elif select.kind == "dev":
            found = _Predicted(self, solved, self.rows.view("dev"))
            yield Visit("dev", found.add_all)
            self._scores += found.scores(self._dev.scorer, self._metric)
        else:
            view = self.rows.view("train")
            judges = np.flatnonzero(self._parts.judged)
            found = _Predicted(self, solved, view)
            yield Visit("train", found.add_judged)
            gold = gold_of(view.take(judges), self._metric)
            scorer = self._metric.prepare(gold)
            self._scores += found.scores(scorer, self._metric, view.places(judges))

    @property
    def _best(self) -> int:
        """Place of the best strength, the strongest of equals."""
        sign = 1 if self._metric.greater_is_better else -1
        return int(np.argmax([sign * score for score in self._scores]))

    def _finish(self, basis: Basis) -> None:
        """Load the best strength's solution, and note how it was found."""
        place, best = self._best, self._best
        for solved in self._stretches:
            if place < len(solved.strengths):
                break
            place -= len(solved.strengths)
        weight, bias, extra = solved.objective.unpack(solved.at(place))
        self._target.load(*basis.folded(weight[0], bias[0]), extra[0])
        self.member.solved = self._diagnosis(solved.minimum, place, best)

    def _diagnosis(self, minimum: Minimum, place: int, best: int) -> dict[str, Any]:
        """Return what a record says of the fit."""
        strengths = [one for solved in self._stretches for one in solved.strengths]
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
        edge = {"edge": ends[best]} if best in ends else {}
        scores = {"strengths": strengths, "strength_scores": self._scores}
        return found | edge | scores | {"selection_score": self._scores[best]}


class _Predicted:
    """What the solutions of a stretch predict of a split, block by block."""

    def __init__(self, fit: LinearFit, solved: Solved, view: FeatureView) -> None:
        self._fit, self._solved, self._view = fit, solved, view
        self._parts: list[Tensor] = []

    def add_all(self, rows: slice, z: Tensor) -> None:
        """Add rows of a split that no part saw."""
        points = self._solved.minimum.points[: len(self._solved.strengths)]
        self._parts.append(self._predict(points, rows, z))

    def add_judged(self, rows: slice, z: Tensor) -> None:
        """Add drawn rows: each is predicted by the part that did not see it."""
        n_strengths = len(self._solved.strengths)
        found = self._predict(self._solved.minimum.points, rows, z)
        judged = self._fit.row_parts[rows].to(found.device)
        by_part = found.view(-1, n_strengths, len(z))
        self._parts.append(by_part.gather(0, judged.expand(1, n_strengths, -1)).squeeze(0))

    def _predict(self, points: Tensor, rows: slice, z: Tensor) -> Tensor:
        offsets = offsets_of(self._view, rows, z.device)
        return self._solved.objective.predict(points, z, offsets)

    def scores(
        self, scorer: Scorer, metric: Metric, places: Int64[np.ndarray, " some"] | None = None
    ) -> list[float]:
        """Return the score of every strength, over some of the rows that were added."""
        predicted = torch.cat(self._parts, 1)
        chosen = predicted if places is None else predicted[:, torch.from_numpy(places)]
        return [scorer.score(self._fit.named(own))[metric.name] for own in chosen]
