"""What all fits to the optimum share: the rows that they read, their targets and solutions.

A fit is a generator of visits: each says what is to be done with every block of rows of a split.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, Shaped
from torch import Tensor

from probekit.base.numbers import block_bounds
from probekit.features import FeatureView
from probekit.metrics.label_metrics import at_best_thresholds
from probekit.probe.decoders.contract import Solution
from probekit.probe.decoders.linear import RegressionDecoder
from probekit.probe.fitters.linear_problems import TRANSITIONS, LinearObjective, Pass, Problems
from probekit.probe.fitters.losses import Binary, ChainLoss, Loss, Sigmoids, Softmax, Squares
from probekit.probe.fitters.minimise import Descent, Minimisation, Minimum, Points, Request, Which
from probekit.probe.fitters.mixtures import MixtureObjective, MixturePass
from probekit.train.member import Member
from probekit.train.sampling import check_two_classes, make_parts
from probekit.train.scoring import ScoredSplit, gold_of
from probekit.train.source import Inputs, Source

SplitName = Literal["train", "judge"]
Take = Callable[[slice, Tensor], None]
Turn = Callable[[Tensor], Tensor]

HELD_ROWS = 8_192
"""Rows of a block that lies in memory, of whole examples."""


@dataclass(frozen=True, eq=False)
class Visit:
    """What a fit wants of the rows of a split: a function that takes block after block."""

    split: SplitName
    take: Take


Visits = Generator[Visit, None, None]


class SplitRows:
    """What one fit reads of train and of the split that judges, in memory where there is room.

    Attributes:
        held: whether the rows are kept in memory after the first visit.
        device: where the rows are.
    """

    def __init__(
        self,
        sources: Mapping[SplitName, Source],
        read: Callable[[Inputs], Tensor],
        *,
        axis: int,
        width: int,
        memory: int,
    ) -> None:
        """Decide whether there is room.

        Args:
            sources: what its head reads of each split.
            read: what the fit makes of it, by values that do not change before the last visit.
            axis: of the rows in that.
            width: values of a row.
            memory: bytes that the rows may take.
        """
        self._sources, self._read, self._axis = sources, read, axis
        self.device = sources["train"].device
        self._turn: Turn | None = None
        self._rows: dict[SplitName, Tensor] = {}
        size = sum(len(source.view) for source in sources.values()) * width * 4
        self.held = 2 * size <= memory

    def release(self) -> None:
        """Let go of the rows that are held."""
        self._rows.clear()

    def turn(self, turn: Turn) -> None:
        """Give rows through a function from now on, those that are held as well."""
        self._turn = turn
        for split in list(self._rows):
            turned = (turn(block) for _, block in self.blocks(split))
            self._rows[split] = self._joined(split, turned)

    def view(self, split: SplitName) -> FeatureView:
        """Return the rows and targets of a split."""
        return self._sources[split].view

    def blocks(self, split: SplitName) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows of a split that are held, in blocks of whole examples."""
        if split not in self._rows:
            source = self._sources[split]
            self._rows[split] = self._joined(split, (self.of(inputs) for inputs in source.blocks()))
        bounds = block_bounds(self.view(split).offsets, HELD_ROWS)
        for start, stop in itertools.pairwise(bounds):
            yield slice(start, stop), self._rows[split].narrow(self._axis, start, stop - start)

    def _joined(self, split: SplitName, blocks: Iterable[Tensor]) -> Tensor:
        """Return the blocks of a split as one, without a second copy of all of them."""
        parts = iter(blocks)
        first = next(parts)
        before, after = first.shape[: self._axis], first.shape[self._axis + 1 :]
        joined = first.new_empty(*before, len(self.view(split)), *after)
        start = 0
        for part in itertools.chain([first], parts):
            joined.narrow(self._axis, start, part.shape[self._axis]).copy_(part)
            start += part.shape[self._axis]
        return joined

    @torch.no_grad()
    def of(self, inputs: Inputs) -> Tensor:
        """Return what is read of a block."""
        rows = self._read(inputs)
        return rows if self._turn is None else self._turn(rows)


class FittedTargets:
    """What is fitted: the classes that were drawn, or numbers in standard units.

    Attributes:
        loss: of the drawn rows.
        values: number of each row's class among those that were drawn, or its number; of sets of
            labels 1 or 0 for each.
    """

    def __init__(self, member: Member, view: FeatureView, device: torch.device) -> None:
        """Look at the drawn targets.

        Raises:
            OptionError: one class was drawn.
        """
        self._decoder = member.probe.decoder
        targets = torch.from_numpy(view.targets).to(device)
        self._present = targets[:0]
        self.loss: Loss
        if isinstance(self._decoder, RegressionDecoder):
            self.values = (targets - self._decoder.mean) / self._decoder.deviation
            self.loss = Squares(self.values)
            return
        check_two_classes(view)
        if view.of_sets:
            self._present, self.values = torch.arange(targets.shape[1]), targets
            self.loss = Sigmoids(targets)
            return
        self._present, self.values = torch.unique(targets, return_inverse=True)
        self._chain = member.spec.decoder.objective == "chain"
        self.loss = self._of(view, self.values)

    def _of(self, view: FeatureView, values: Int64[Tensor, " n"]) -> Loss:
        n_classes = len(self._present)
        if self._chain:
            return ChainLoss(values, n_classes, torch.from_numpy(view.offsets).to(values.device))
        return Binary(values) if n_classes == 2 else Softmax(values, n_classes)

    def elsewhere(self, view: FeatureView) -> tuple[Loss, Float[Tensor, "1 n"]]:
        """Return the loss of the examples of a split whose classes were all drawn.

        Beside it the weight of each row in their mean: the cost of a class that was not drawn is
        no different from strength to strength.
        """
        targets = torch.from_numpy(view.targets).to(self._present.device)
        values = torch.searchsorted(self._present, targets).clamp(max=len(self._present) - 1)
        drawn = self._present[values] == targets
        # Classes 1 and 4 were drawn (`present`), and a split has 4 2 1: places 1 1 0 are those of
        # 4 4 1, so that its second row, of a class that was not drawn, does not count.
        if self._chain:  # a sentence counts as a whole
            missed = np.concatenate([[0], np.cumsum(~drawn.cpu().numpy())])[view.offsets]
            shown = np.repeat(np.diff(missed) == 0, view.lengths)
            drawn = torch.from_numpy(shown).to(targets.device)
        weights = drawn.float()
        return self._of(view, values), (weights / weights.sum().clamp(min=1)).unsqueeze(0)

    def named(self, predicted: Tensor) -> np.ndarray:
        """Return predictions as metrics take them: class numbers, numbers in their unit, scores."""
        if isinstance(self._decoder, RegressionDecoder):
            values = predicted.double() * self._decoder.deviation + self._decoder.mean
            return np.asarray(values.cpu().numpy())
        if isinstance(self.loss, Sigmoids):
            return np.asarray(predicted.double().cpu().numpy())
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
        solution = Solution(weight=weight, bias=bias, present=self._present, chain=chain)
        self._decoder.load(solution)


Objective = LinearObjective | MixtureObjective


@dataclass(frozen=True, eq=False)
class Solved:
    """Some problems, and their solutions.

    Attributes:
        strengths: of L2; several problems may have one.
        objective: of all problems: part by part, and strength by strength in each.
        minimum: where they are.
        descent: what takes them further; None where they are solved.
    """

    strengths: tuple[float, ...]
    objective: Objective
    minimum: Minimum
    descent: Descent | None = None

    @classmethod
    def begun(cls, strengths: tuple[float, ...], objective: LinearObjective) -> "Solved":
        """Return problems that are yet to be solved."""
        descent = objective.descent()
        return cls(strengths, objective, descent.minimum, descent)

    def go_on(self, places: Sequence[int], looser: float) -> Generator[Visit, None, list[bool]]:
        """Solve for some of the strengths, up to some times the tolerance.

        Returns:
            Whether each has taken a step on every part of the rows, or needs none.
        """
        if self.descent is None:
            return [True] * len(places)
        which, before = self._which(places), self.minimum.iterations.clone()
        yield from drive(self.descent.go_on(which, looser=looser), self.objective.begin)
        stepped = (self.minimum.iterations > before) | self.minimum.converged
        return [bool(of) for of in stepped[which].view(-1, len(places)).all(0)]

    def done(self) -> "Solved":
        """Return the same, without what would take it further."""
        return replace(self, descent=None)

    def only(self, places: Sequence[int]) -> "Solved":
        """Return what was found for some of the strengths."""
        which = self._which(places)
        minimum = Minimum(**{name: values[which] for name, values in vars(self.minimum).items()})
        return Solved(tuple(self.strengths[place] for place in places), self.objective, minimum)

    def _which(self, places: Sequence[int]) -> Which:
        """Return the numbers of the problems with some of the strengths, ascending."""
        numbers = torch.arange(len(self.minimum.value), device=self.minimum.value.device)
        return numbers.view(-1, len(self.strengths))[:, list(places)].flatten()

    def of_parts(self, index: int) -> Points:
        """Return the solution at a place of the strengths, on every part of the rows."""
        return self.minimum.points[index :: len(self.strengths)]

    def said(self, index: int) -> dict[str, Any]:
        """Return what a record says of a solution."""
        minimum = self.minimum
        return {
            "converged": bool(minimum.converged[index]),
            "iterations": int(minimum.iterations[index]),
            "gradient": float(minimum.gradient[index]),
            "tolerance": float(minimum.tolerance[index]),
            "objective": float(minimum.value[index]),
            "strength": self.strengths[index],
        }


class SolvedFit(ABC):
    """One member, solved for several strengths of L2, and perhaps from several starts.

    Attributes:
        member: what is fitted.
        rows: what it reads of train and of what judges.
        target: what is predicted.
        row_axis: of the rows in what it reads.
        contained: fits of heads that this one's may be equal to, which are solved before it.
    """

    row_axis: ClassVar[int]
    contained: Sequence["SolvedFit"] = ()

    def __init__(
        self,
        member: Member,
        sources: Mapping[SplitName, Source],
        *,
        judge: ScoredSplit,
        memory: int,
    ) -> None:
        """Prepare the problems.

        Args:
            member: what is fitted.
            sources: what its head reads of train and of what judges.
            judge: the split that chooses where the member's selection says that one does; with the
                metric that chooses in any case.
            memory: bytes that the rows may take.

        Raises:
            OptionError: there is nothing to tell apart, or nothing that can choose.
        """
        self.member, self._judge, self._metric = member, judge, judge.metric
        rows = SplitRows(sources, self.read, axis=self.row_axis, width=self.width, memory=memory)
        self.rows, view = rows, rows.view("train")
        self.target = FittedTargets(member, view, self.rows.device)
        self._parts = make_parts(view, member.spec.select)

    @property
    @abstractmethod
    def width(self) -> int:
        """Values of a row."""

    @abstractmethod
    def read(self, inputs: Inputs) -> Tensor:
        """Return what is fitted to: the rows of a block, as they are."""

    @abstractmethod
    def visits(self) -> Visits:
        """Solve, and load what was chosen into the member."""

    @property
    @abstractmethod
    def best_score(self) -> float | None:
        """The best score so far on what chooses; None before the first, or without any."""

    @abstractmethod
    def objective(self, loss: Loss, problems: Problems, extra_l2: float = TRANSITIONS) -> Objective:
        """Return what is minimised: a loss, with L2 of some strength on values of its own."""

    @property
    def n_judged(self) -> int:
        """Examples that choose; 0 where nothing is chosen."""
        select = self.member.spec.select
        if select is None:
            return 0
        if select.by_split:
            return self.rows.view("judge").n_examples
        return int((self._parts.judged > 0).sum())

    def better(self, score: float) -> float:
        """Return a score that rises with what it is a score of: a loss has another sign."""
        return self._metric.scale.sign * score

    def problems(self, strengths: tuple[float, ...]) -> Problems:
        """Return the problems of all parts for some strengths."""
        lengths = self.rows.view("train").lengths
        seen = torch.from_numpy(self._parts.seen.repeat(lengths, axis=1)).float()
        return Problems.of(strengths, seen.to(self.rows.device))

    def scores(self, solved: Solved) -> Generator[Visit, None, list[float]]:
        """Return the score of each solution on what chooses; 0 where nothing is chosen."""
        select = self.member.spec.select
        if select is None:
            return [0.0] * len(solved.strengths)
        if self._metric.consumes == "losses":
            return (yield from self._losses(solved))
        predicted = yield from self._predict(solved, "judge" if select.by_split else "train")
        scorer = self._judge.scorer
        if not select.by_split:
            view, judges = self.rows.view("train"), np.flatnonzero(self._parts.judged)
            scorer = self._metric(gold_of(view.take(judges), self._metric))
            predicted = predicted[:, torch.from_numpy(view.places(judges))]
        named = (at_best_thresholds(scorer.gold, self.target.named(value)) for value in predicted)
        return [scorer.score(values)[self._metric.name] for values in named]

    def _predict(
        self, solved: Solved, split: SplitName
    ) -> Generator[Visit, None, Shaped[Tensor, "strengths n *labels"]]:
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
        blocks: list[Tensor] = []

        def add(rows: slice, z: Tensor) -> None:
            first, last = np.searchsorted(view.offsets, [rows.start, rows.stop])
            bounds = torch.from_numpy(view.offsets[first : last + 1] - rows.start)
            predicted = solved.objective.predict(points, z, bounds.to(z.device))
            judged, places = row_parts[rows].to(predicted.device), range(predicted.shape[1])
            by_part = predicted.view(-1, n_strengths, *predicted.shape[1:])
            blocks.append(by_part[judged, :, places].movedim(1, 0))

        yield Visit(split, add)
        return torch.cat(blocks, 1)

    def _losses(self, solved: Solved) -> Generator[Visit, None, list[float]]:
        """Return the mean loss of what judges under each solution."""
        loss, parts = self.target.elsewhere(self.rows.view("judge"))
        points = solved.minimum.points[: len(solved.strengths)]
        which = torch.arange(len(points), device=points.device)
        problems = Problems(0.0 * points[:, 0], torch.zeros_like(which), parts)
        evaluation = self.objective(loss, problems, extra_l2=0.0).begin(Request(which, points))
        yield Visit("judge", evaluation.add)
        return list(evaluation.finish().value.tolist())


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
            evaluation = begin(request)
            yield Visit("train", evaluation.add)
            request = minimisation.send(evaluation.finish())
    except StopIteration as end:
        minimum: Minimum = end.value
        return minimum
