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

from probekit.base.numbers import numpy_generator
from probekit.base.tensors import full
from probekit.probe.fitters.linear_problems import TRANSITIONS, Problems
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import Minimum, Points, Request
from probekit.probe.fitters.mixtures import (
    BatchDescent,
    Mixture,
    MixtureObjective,
    RowMixture,
    SharedMixture,
)
from probekit.probe.fitters.preconditioner import Basis, BasisBuilder, Scale
from probekit.probe.normalization.standardization import Moments
from probekit.train.member import Member
from probekit.train.option_groups import DEFAULT_BATCH_SIZE, DEFAULT_EPOCHS
from probekit.train.solving.path_fit import Decoders, LinearFit
from probekit.train.solving.solved_fit import Solved, SolvedFit, Visit, Visits, drive
from probekit.train.source import Inputs

Start = tuple[Points, float]
"""Decoder and mixture, for every part of the rows, and the strength of L2."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A solution that may be chosen.

    Attributes:
        name: where it was found: ``average``, ``layer 4``, ``from average``, ``trained``.
        score: on what chooses.
        load: puts it into the member.
        diagnosis: what a record says of it.
        solved: the problems that were solved side by side; None if a contained fit found it.
        place: of its own in them.
        cut: whether the descent was cut short, and goes on if it is chosen.
    """

    name: str
    score: float
    load: Callable[[], None]
    diagnosis: Mapping[str, Any]
    solved: Solved | None = None
    place: int = 0
    cut: bool = False


MOST_LAYERS = 3
"""Layers near which a fit starts: those that read best alone."""

MOST_ITERATIONS, TOLERANCE = 400, 1e-5
"""Of fits of mixtures, whose optimum is one of several anyway."""

MOST_STEPS = 2000
"""Of the training that gives one of the starts; it has no more epochs than any other."""

_RESIDUAL = 1e-3
"""Largest projected gradient of a mixture, in nats, that is convergence."""

_FIRST = 60
"""Iterations after which what is found from a start is scored; what is chosen so goes on."""

AVERAGE, TRAINED = "average", "trained"


class MixtureFit(SolvedFit):
    """Layers are read as ``normalize`` leaves them, but for one common scale of every channel.

    What a mixture contains is fitted first, each at the strengths of the whole path: the average,
    and every layer alone. From the average, from near the layers that read best, and from where
    training by steps ends, mixture and decoder are then fitted together, at the strength that each
    of these chose. All that was found are candidates, and what chooses the strength chooses among
    them, the simplest of equals: so the fit is never behind what it contains. A descent is first
    cut short, and goes to its end, to be scored again, if it is chosen as it is.
    """

    row_axis = 1
    _means: Float64[Tensor, "layers dim"]
    _basis: Basis
    _mixture: Mixture
    _found: dict[str, Candidate]
    """All that may be chosen, the simplest first."""

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
        return max((score for score in scores if score is not None), key=self.better, default=None)

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
        """Solve from every start, and load the best candidate."""
        descent = (yield from self._train()) if self._alone else None
        yield from self._turn()
        starts, self._found = self._starts(), self._held()
        stopped = None if descent is None else (yield from self._stopped(descent))
        if stopped is not None:
            starts[TRAINED] = stopped.minimum.points, self._average.path.strength
        solved = yield from self._descend([*starts.values()], _FIRST)
        yield from self._add(solved, [f"from {name}" for name in starts], cut=True)
        if stopped is not None:
            yield from self._add(stopped, [TRAINED])
        while (chosen := self._choice()).cut and (last := chosen.solved) is not None:
            end = last.of_parts(chosen.place), last.strengths[chosen.place]
            further = yield from self._descend([end], MOST_ITERATIONS)
            yield from self._add(further, [chosen.name])
        chosen.load()
        self.member.solved = (yield from self._diagnosis(chosen)) | {"starts": len(starts)}

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
        mean, deviation = (value.squeeze(0) for value in average.result())
        scale = Scale.of(mean, deviation)
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
        queries = torch.zeros(n_layers, dim, dtype=torch.float64, device=self.rows.device)
        objective = MixtureObjective(
            self.target.loss,
            RowMixture(queries) if head.per_row else SharedMixture(n_layers),
            self.problems((0.0,)),
            queries.new_ones(dim),
            extra_l2=TRANSITIONS,
        )
        start = queries.new_zeros(len(objective.problems.l2), objective.mixture.n_values)
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
                span = slice(int(view.offsets[batch]), int(view.offsets[end]))
                descent.step(span, z[:, span.start - rows.start : span.stop - rows.start])

        while not descent.over:
            yield Visit("train", step)
        return descent

    def _rates(self) -> list[float]:
        """Return the default rates of weights, of the decoder's own values, and of mixtures."""
        spec = self.member.spec
        rate = spec.head.learning_rate
        groups = {**spec.head.group_rates, **spec.decoder.group_rates}
        return [rate, *(groups.get(name) or rate for name in ("transitions", "mixing"))]

    def _turned(self, decoders: Decoders, values: Float64[Tensor, "parts mixture"]) -> Points:
        """Return points for rows that are turned.

        Args:
            decoders: for rows as they came.
            values: mixtures of rows that are turned.
        """
        weight, bias, extra = decoders
        if self.member.probe.head.per_row:
            shift = weight @ self._basis.scale.mean
        else:
            shift = (weight * (values.softmax(1) @ self._means).unsqueeze(1)).sum(2)
        turned = self._rotated(weight * self._basis.scale.deviation)
        linear = torch.cat([turned, (bias + shift).unsqueeze(2)], 2).flatten(1)
        return torch.cat([linear, extra, values], 1)

    def _rotated(self, weight: Tensor) -> Tensor:
        rotation = self._basis.rotation
        return weight if rotation is None else weight @ rotation

    def _stopped(self, descent: BatchDescent) -> Generator[Visit, None, Solved]:
        """Return where training ended as a solution without L2, which has not converged."""
        weight, bias, extra, values = descent.objective.unpack(descent.points)
        if self.member.probe.head.per_row:
            values = self._rotated(values * self._basis.scale.deviation)
        points = self._turned((weight, bias, extra), values)
        objective = self.objective(self.target.loss, self.problems((0.0,)))
        which = torch.arange(len(points), device=points.device)
        evaluation = objective.begin(Request(which, points))
        yield Visit("train", evaluation.add)
        end = evaluation.finish()
        minimum = Minimum(
            points=points,
            value=end.value,
            gradient=end.gradient.norm(dim=1),
            tolerance=torch.zeros_like(end.value),
            iterations=torch.full_like(which, descent.n_done),
            converged=torch.zeros_like(which, dtype=torch.bool),
        )
        return Solved((0.0,), objective, minimum)

    def _starts(self) -> dict[str, Start]:
        """Return the average, and the layers that read best alone, if they can be come near."""
        starts = {AVERAGE: self._start(self._mixture.even(), self._average)}
        for index in sorted(range(len(self._alone)), key=lambda n: self._rank(self._alone[n])):
            near = self._mixture.near(index)
            if near is not None and len(starts) <= MOST_LAYERS:
                starts[self._name(index)] = self._start(near, self._alone[index])
        return starts

    def _start(self, values: Float64[Tensor, " mixture"], fit: LinearFit) -> Start:
        decoders = fit.decoders(*fit.path.chosen)
        mixture = values.to(self._means.device).expand(len(decoders[0]), -1)
        return self._turned(decoders, mixture), fit.path.strength

    def _rank(self, fit: LinearFit) -> tuple[float, float]:
        """Return what is least of the best: by what chooses, else by the objective."""
        return -self.better(fit.path.score), float(fit.diagnosis["objective"])

    def _name(self, index: int) -> str:
        return f"layer {self.member.spec.layers[index]}"

    def _descend(self, starts: Sequence[Start], most: int) -> Generator[Visit, None, Solved]:
        """Fit mixtures and decoders together."""
        strengths = tuple(strength for _, strength in starts)
        points = torch.stack([points for points, _ in starts], 1).flatten(0, 1)
        objective = self.objective(self.target.loss, self.problems(strengths))
        minimisation = objective.minimise(points, most=most, tolerance=TOLERANCE)
        return Solved(strengths, objective, (yield from drive(minimisation, objective.begin)))

    def _add(self, solved: Solved, names: Sequence[str], *, cut: bool = False) -> Visits:
        """Keep solutions with their scores; ``cut`` says that what has not converged may go on."""
        scores = yield from self.scores(solved)
        done = solved.minimum.converged.view(-1, len(names)).all(0).tolist()
        for place, (name, score) in enumerate(zip(names, scores, strict=True)):
            said = solved.said(place) | {"selection_score": score}
            load, goes_on = partial(self._load, solved, place), cut and not done[place]
            self._found[name] = Candidate(name, score, load, said, solved, place, goes_on)

    def _held(self) -> dict[str, Candidate]:
        """Return what the mixture contains."""
        alone = [(self._name(n), self._mixture.alone(n), fit) for n, fit in enumerate(self._alone)]
        return {
            name: Candidate(name, fit.path.score, partial(self._take, values, fit), fit.diagnosis)
            for name, values, fit in ((AVERAGE, self._mixture.even(), self._average), *alone)
            if values is not None
        }

    def _choice(self) -> Candidate:
        """Return the best of all that was found; where nothing chooses, by the objective."""
        found = self._found.values()
        if self.member.spec.select is None:
            ends = [fit for fit in found if fit.solved is not None and fit.name != TRAINED]
            return min(ends, key=lambda candidate: float(candidate.diagnosis["objective"]))
        return max(found, key=lambda candidate: self.better(candidate.score))

    def _diagnosis(self, best: Candidate) -> Generator[Visit, None, dict[str, Any]]:
        """Return what a record says of the fit."""
        diagnosis = {**best.diagnosis, "chosen": best.name}
        if best.solved is not None:
            problems = self.problems((best.solved.strengths[best.place],))
            objective = self.objective(self.target.loss, problems)
            point = best.solved.of_parts(best.place)[:1]
            evaluation = objective.begin(Request(torch.zeros_like(point[:, 0]).long(), point))
            yield Visit("train", evaluation.add)
            gradient = objective.unpack(evaluation.finish().gradient)[3]  # over all drawn rows
            residual = float(self._mixture.residual(objective.unpack(point)[3], gradient))
            converged = diagnosis["converged"] and residual <= _RESIDUAL
            diagnosis |= {"projected_gradient": residual, "converged": converged}
        if self.member.spec.select is None:
            del diagnosis["selection_score"]
            return diagnosis
        scores = [candidate.score for candidate in self._found.values()]
        return diagnosis | {"candidates": [*self._found], "candidate_scores": scores}

    def _take(self, values: Float64[Tensor, " values"], fit: LinearFit) -> None:
        """Put what a contained fit found into head and decoder."""
        self.member.probe.head.load_mixture(values)
        self.target.load(*(tensor[0] for tensor in fit.decoders(*fit.path.chosen)))

    def _load(self, solved: Solved, place: int) -> None:
        """Put a solution for layers as they came into head and decoder."""
        assert isinstance(solved.objective, MixtureObjective)
        found = solved.objective.unpack(solved.of_parts(place)[:1])
        weight, bias, extra, values = (tensor[0] for tensor in found)
        raw = self._basis.unrotated(weight) / self._basis.scale.deviation
        if self.member.probe.head.per_row:
            values = self._basis.unrotated(values) / self._basis.scale.deviation
            centre = self._basis.scale.mean
        else:
            centre = values.softmax(0) @ self._means
            values = values - values.mean()
        self.member.probe.head.load_mixture(values)
        self.target.load(raw, bias - raw @ centre, extra)
