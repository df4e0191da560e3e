"""A mixture of the layers with its decoder, solved, and never behind what it contains."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.base.numbers.precision import full
from probekit.base.numbers.seeding import numpy_generator
from probekit.probe.fitters.basis import Basis, BasisBuilder, Scale
from probekit.probe.fitters.batch_descent import BatchDescent
from probekit.probe.fitters.linear_problems import TRANSITIONS, Problems
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import Minimum, Request
from probekit.probe.fitters.mixtures import Mixture, MixtureObjective, RowMixture, SharedMixture
from probekit.probe.normalization.standardization import Moments
from probekit.train.member import Member
from probekit.train.option_groups import DEFAULT_BATCH_SIZE, DEFAULT_EPOCHS
from probekit.train.solving.path_fit import LinearFit
from probekit.train.solving.solved_fit import Scores, Solved, SolvedFit, drive
from probekit.train.solving.split_rows import Visit, Visits
from probekit.train.source import Inputs

MOST_LAYERS = 3
"""Layers near which a fit starts: those that read best alone."""

MOST_ITERATIONS, TOLERANCE = 400, 1e-6
"""Of fits of mixtures, whose optimum is one of several anyway."""

MOST_STEPS = 2000
"""Of the training that gives one of the starts; it has no more epochs than any other."""

_RESIDUAL = 1e-3
"""Largest projected gradient of a mixture, in nats, that is convergence."""

_WARM_UP = 40
"""Iterations with the mixture held, before both are fitted."""

AVERAGE, TRAINED = "average", "trained"


@dataclass(frozen=True, eq=False)
class Start:
    """Where mixture and decoder are fitted together from.

    Attributes:
        name: what is there: ``average``, ``layer 4``, ``trained``.
        values: the mixture, for every part of the rows.
        strength: of L2, as what is there chose it.
    """

    name: str
    values: Float64[Tensor, "parts values"]
    strength: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """A solution that may be chosen.

    Attributes:
        name: where it was found: ``average``, ``layer 4``, ``from average``, ``trained``.
        score: on what chooses.
        load: puts it into the member.
        found: what a record says of it.
        mixture: its solution and the place in it; None if a fit that is contained found it.
    """

    name: str
    score: float
    load: Callable[[], None]
    found: Mapping[str, Any]
    mixture: tuple[Solved, int] | None = None


class MixtureFit(SolvedFit):
    """Layers are read as ``normalize`` leaves them, but for one common scale of every channel.

    What a mixture contains is fitted first, each at the strengths of the whole path: the average,
    and every layer alone. From the average, from near the layers that read best, and from where
    training by steps ends, mixture and decoder are then fitted together, at the strength that each
    of these chose. All that was found are candidates, and what chooses the strength chooses among
    them, the simplest of equals: so the fit is never behind what it contains.
    """

    row_axis = 1
    _means: Float64[Tensor, "layers dim"]
    _basis: Basis
    _mixture: Mixture
    _own: list[tuple[str, Solved, int, Scores]]
    """Solutions that are mixtures: a name, the solution, the place in it, and its scores."""

    _beside: dict[str, Any]
    """What a record says of the starts."""

    def __init__(
        self,
        member: Member,
        average: LinearFit,
        alone: Sequence[LinearFit],
        **options: Any,
    ) -> None:
        """Prepare the problems.

        Args:
            member: what is fitted.
            average: the fit of the same layers' average, to be solved before.
            alone: the fits of each of them, likewise.
            options: those of `SolvedFit`.
        """
        self._average, self._alone = average, alone
        self.contained = (average, *alone)
        super().__init__(member, **options)

    @property
    def width(self) -> int:
        """Values of all layers."""
        return len(self.member.spec.layers) * self.member.probe.head.dim

    @property
    def best_score(self) -> float | None:
        """The best score of what it contains."""
        scores = [fit.best_score for fit in self.contained]
        return max((one for one in scores if one is not None), key=self.better, default=None)

    def read(self, inputs: Inputs) -> Float[Tensor, "layers n dim"]:
        """Return the normalised layers of a block."""
        z = inputs.of(self.member.normalization, self.member.spec.layers)
        assert isinstance(z, Tensor), "a mixture of layers reads rows"
        return full(z.transpose(0, 1))

    def objective(
        self, loss: Loss, problems: Problems, extra_l2: float = TRANSITIONS
    ) -> MixtureObjective:
        """Return the objective of a mixture and a linear layer."""
        return MixtureObjective(
            loss, self._mixture, problems, self._basis.spectrum, extra_l2=extra_l2
        )

    def visits(self) -> Visits:
        """Solve from every start, and load for each judge the best candidate."""
        descent = (yield from self._train()) if self._alone else None
        yield from self._turn()
        starts, self._own = self._starts(), []
        stopped = None if descent is None else (yield from self._stopped(descent))
        if stopped is not None:
            objective, points = stopped.objective, stopped.minimum.points
            assert isinstance(objective, MixtureObjective)
            starts.append(Start(TRAINED, objective.split(points)[1], starts[0].strength))
        yield from self._fit_together(starts)
        if stopped is not None:
            yield from self._add(stopped, [TRAINED])
        every = [self._candidates(judge) for judge in range(self.n_judges)]
        chosen = [self._choice(candidates) for candidates in every]
        self.settle([one.load for one in chosen])
        self.member.solved = yield from self._diagnosis(chosen, every[0])

    def _turn(self) -> Visits:
        """Centre the layers, scale channels by the average's, and turn to its components.

        The problem of the even mixture is then that of the average alone, as `LinearFit` has it.
        One query for all rows is centred by what all layers have in common: their means stay apart.
        """
        layers, average = Moments(), Moments()

        def add(rows: slice, z: Tensor) -> None:
            layers.add(z.transpose(0, 1))
            average.add(z.mean(0).unsqueeze(1))

        yield Visit("train", add)
        self._means = layers.result()[0]
        scale = Scale.of(*(value.squeeze(0) for value in average.result()))
        width = len(scale.mean)
        builder = BasisBuilder(scale, max(len(self.rows.view("train")), width))
        if builder.reads:
            yield Visit("train", lambda rows, z: builder.add(z.mean(0)))
        self._basis = builder.finish()
        by_row = self.member.probe.head.per_row
        centre = (scale.mean.expand_as(self._means) if by_row else self._means).unsqueeze(1)
        turn = Basis(Scale(centre, scale.deviation), self._basis.rotation, self._basis.spectrum)
        self.rows.turn(turn.apply)
        means = turn.apply(self._means.unsqueeze(1)).squeeze(1).double()
        self._mixture = RowMixture(means) if by_row else SharedMixture(len(means))

    def _train(self) -> Generator[Visit, None, BatchDescent]:
        """Train by steps on rows as they came: rates, epochs and batches are the head's defaults.

        Batches are of neighbouring sentences, in an order that no seed of the run decides.
        """
        head, view = self.member.probe.head, self.rows.view("train")
        n_layers, dim = len(self._alone), head.dim
        own = torch.zeros(n_layers, dim, dtype=torch.float64, device=self.rows.device)
        objective = MixtureObjective(
            self.target.loss,
            RowMixture(own) if head.per_row else SharedMixture(n_layers),
            self.problems((0.0,)),
            own.new_ones(dim),
            extra_l2=TRANSITIONS,
        )
        start = own.new_zeros(len(objective.problems.l2), objective.mixture.n_values)
        n_batches = math.ceil(view.n_examples / DEFAULT_BATCH_SIZE)
        n_steps = min(DEFAULT_EPOCHS * n_batches, MOST_STEPS)
        descent = BatchDescent(objective, objective.start(start), self._rates(), n_steps)
        order = numpy_generator(0, "batches")

        def step(rows: slice, z: Tensor) -> None:
            first, last = np.searchsorted(view.offsets, [rows.start, rows.stop])
            for batch in order.permutation(np.arange(first, last, DEFAULT_BATCH_SIZE)):
                if descent.over:
                    return
                end = min(batch + DEFAULT_BATCH_SIZE, last)
                own = slice(int(view.offsets[batch]), int(view.offsets[end]))
                descent.step(own, z[:, own.start - rows.start : own.stop - rows.start])

        while not descent.over:
            yield Visit("train", step)
        return descent

    def _rates(self) -> list[float]:
        """Return the default rates of weights, of the decoder's own values, and of mixtures."""
        spec = self.member.spec
        rate = spec.head.learning_rate
        groups = {**spec.head.group_rates, **spec.decoder.group_rates}
        return [rate, *(groups.get(name) or rate for name in ("transitions", "mixing"))]

    def _turned(self, descent: BatchDescent) -> Float64[Tensor, "parts values"]:
        """Return where training ended, for rows that are turned."""
        weight, bias, extra, values = descent.objective.unpack(descent.points)
        turned, centre = weight * self._basis.scale.deviation, self._basis.scale.mean
        if self.member.probe.head.per_row:
            values = self._rotated(values * self._basis.scale.deviation)
            shift = weight @ centre
        else:
            shift = (weight * (values.softmax(1) @ self._means).unsqueeze(1)).sum(2)
        own = torch.cat([self._rotated(turned), (bias + shift).unsqueeze(2)], 2).flatten(1)
        return torch.cat([own, extra, values], 1)

    def _rotated(self, weight: Tensor) -> Tensor:
        rotation = self._basis.rotation
        return weight if rotation is None else weight @ rotation

    def _stopped(self, descent: BatchDescent) -> Generator[Visit, None, Solved]:
        """Return where training ended as a solution without L2, which has not converged."""
        points = self._turned(descent)
        objective = self.objective(self.target.loss, self.problems((0.0,)))
        which = torch.arange(len(points), device=points.device)
        evaluation = objective.begin(Request(which, points))
        yield Visit("train", evaluation.add)
        found = evaluation.finish()
        minimum = Minimum(
            points=points,
            value=found.value,
            gradient=found.gradient.norm(dim=1),
            tolerance=torch.zeros_like(found.value),
            iterations=torch.full_like(which, descent.n_done),
            converged=torch.zeros_like(which, dtype=torch.bool),
        )
        return Solved((0.0,), objective, minimum)

    def _starts(self) -> list[Start]:
        """Return the average, and the layers that read best alone, if they can be come near."""
        even = self._mixture.even().to(self.rows.device)
        found = [self._start(AVERAGE, even, self._average)]
        for place in sorted(range(len(self._alone)), key=lambda n: self._rank(self._alone[n])):
            near = self._mixture.near(place)
            if near is not None and len(found) <= MOST_LAYERS:
                own = self._alone[place]
                found.append(self._start(self._name(place), near.to(even.device), own))
        return found

    def _start(self, name: str, values: Float64[Tensor, " values"], fit: LinearFit) -> Start:
        return Start(name, values.expand(len(self._parts.seen), -1), fit.strength(0))

    def _rank(self, fit: LinearFit) -> tuple[float, float]:
        """Return what is least of the best: by what chooses, else by the objective."""
        return -self.better(fit.score(0)), float(fit.diagnosis(0)["objective"])

    def _name(self, place: int) -> str:
        return f"layer {self.member.spec.layers[place]}"

    def _fit_together(self, starts: Sequence[Start]) -> Visits:
        """Fit mixtures and decoders from every start: at its own strength, and all at one.

        That one is the strength of what reads best alone, so that where they end can be compared.
        """
        common = min((self._average, *self._alone), key=self._rank).strength(0)
        pairs = [(one, l2) for one in starts for l2 in dict.fromkeys((one.strength, common))]
        strengths = tuple(l2 for _, l2 in pairs)
        objective = self.objective(self.target.loss, self.problems(strengths))
        mixtures = torch.stack([one.values for one, _ in pairs], 1).flatten(0, 1)
        minimum = yield from self._descend(objective, mixtures)
        together = Solved(strengths, objective, minimum)
        yield from self._add(together, [f"from {one.name}" for one, _ in pairs])
        ends = [float(minimum.value[n]) for n, l2 in enumerate(strengths) if l2 == common]
        gap = (max(ends) - min(ends)) / max(abs(min(ends)), 1e-30)
        self._beside = {"starts": len(starts), "starts_gap": gap}

    def _descend(
        self, objective: MixtureObjective, mixtures: Float64[Tensor, "problems values"]
    ) -> Generator[Visit, None, Minimum]:
        """Fit the decoders under the mixtures that are given, then both."""
        held = objective.minimise(objective.start(mixtures), most=_WARM_UP, tolerance=TOLERANCE)
        warm = yield from drive(held, lambda request: objective.begin(request, fixed=True))
        both = objective.minimise(warm.points, most=MOST_ITERATIONS, tolerance=TOLERANCE)
        return (yield from drive(both, objective.begin))

    def _add(self, solved: Solved, names: Sequence[str]) -> Visits:
        """Keep the solutions of all rows, with their scores."""
        scores = yield from self.scores(solved)
        self._own += [
            (name, solved, n, own) for n, (name, own) in enumerate(zip(names, scores, strict=True))
        ]

    def _candidates(self, judge: int) -> list[Candidate]:
        """Return all that a judge may choose, the simplest first."""
        held = [(AVERAGE, self._mixture.even(), self._average)]
        for place, fit in enumerate(self._alone):
            if (values := self._mixture.alone(place)) is not None:
                held.append((self._name(place), values, fit))
        found = [
            Candidate(
                name,
                fit.score(judge),
                partial(self._take, values, fit, judge),
                fit.diagnosis(judge),
            )
            for name, values, fit in held
        ]
        for name, solved, place, scores in self._own:
            said = solved.said(place) | {"selection_score": scores[judge]}
            load = partial(self._load, solved, place)
            found.append(Candidate(name, scores[judge], load, said, (solved, place)))
        return found

    def _choice(self, candidates: Sequence[Candidate]) -> Candidate:
        """Return the best, the first of equals; where nothing chooses, by the objective."""
        if self.member.spec.select is None:
            own = [one for one in candidates if one.mixture is not None and one.name != TRAINED]
            return min(own, key=lambda one: float(one.found["objective"]))
        return max(candidates, key=lambda one: self.better(one.score))

    def _diagnosis(
        self, chosen: Sequence[Candidate], candidates: Sequence[Candidate]
    ) -> Generator[Visit, None, dict[str, Any]]:
        """Return what a record says of the fit.

        Args:
            chosen: by each judge.
            candidates: of the first of them.
        """
        best = chosen[0]
        found = {**best.found, **self._beside, "chosen": best.name}
        if best.mixture is not None:
            residual = yield from self._residual(*best.mixture)
            converged = found["converged"] and residual <= _RESIDUAL
            found |= {"projected_gradient": residual, "converged": converged}
        if self.member.spec.select is None:
            del found["selection_score"]
            return found
        if self._folds is not None:
            found["fold_strengths"] = [one.found["strength"] for one in chosen[1:]]
        scores: dict[str, float] = {}
        for one in sorted(candidates, key=lambda one: self.better(one.score)):
            scores[one.name] = one.score  # of two strengths the better one
        return found | {"candidates": [*scores], "candidate_scores": [*scores.values()]}

    def _residual(self, solved: Solved, place: int) -> Generator[Visit, None, float]:
        """Return the projected gradient of the mixture of a solution over all drawn rows."""
        objective = self.objective(self.target.loss, self.problems((solved.strengths[place],)))
        point = solved.minimum.points[place : place + 1]
        evaluation = objective.begin(Request(torch.zeros_like(point[:, 0]).long(), point))
        yield Visit("train", evaluation.add)
        gradient = objective.unpack(evaluation.finish().gradient)[3]
        return float(self._mixture.residual(objective.unpack(point)[3], gradient))

    def _take(self, values: Float64[Tensor, " values"], fit: LinearFit, judge: int) -> None:
        """Put what a contained fit found into head and decoder."""
        self.member.probe.head.load_mixture(values)
        self.target.load(*fit.solution(*fit.chosen(judge)))

    def _load(self, solved: Solved, place: int) -> None:
        """Put a solution for layers as they came into head and decoder."""
        objective = solved.objective
        assert isinstance(objective, MixtureObjective)
        point = solved.minimum.points[place : place + 1]
        weight, bias, extra, values = (one[0] for one in objective.unpack(point))
        raw = self._basis.unrotated(weight) / self._basis.scale.deviation
        if self.member.probe.head.per_row:
            values = self._basis.unrotated(values) / self._basis.scale.deviation
            centre = self._basis.scale.mean
        else:
            centre = values.softmax(0) @ self._means
            values = values - values.mean()
        self.member.probe.head.load_mixture(values)
        self.target.load(raw, bias - raw @ centre, extra)
