"""The two fits to the optimum: a decoder alone, and a mixture of the layers with its decoder."""

import logging
from collections.abc import Generator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.base.notices import warn_once
from probekit.base.numbers.precision import full
from probekit.probe.fitters.basis import Basis, BasisBuilder, Scale
from probekit.probe.fitters.linear_problems import TRANSITIONS, LinearObjective, Problems, RidgeSums
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import Minimum, Request
from probekit.probe.fitters.mixtures import Mixture, MixtureObjective, RowMixture, SharedMixture
from probekit.probe.normalization.standardization import Moments
from probekit.train.solving.path_fit import Objective, PathFit, Scores, Solved, drive
from probekit.train.solving.split_rows import Visit, Visits
from probekit.train.source import Inputs

logger = logging.getLogger(__name__)

MOST_STARTS = 12
"""Layers near whose vertex a fit starts; of more, as many, evenly spaced."""

MOST_ITERATIONS, TOLERANCE = 400, 1e-6
"""Of fits of mixtures, whose optimum is one of several anyway."""

_RESIDUAL = 1e-3
"""Largest projected gradient of a mixture, in nats, that is convergence."""

_WARM_UP = 40
"""Iterations with the mixture held, before both are fitted."""


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
        scale = Scale.of(*(value.squeeze(0) for value in moments.result()))
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
        objective = solved.objective
        assert isinstance(objective, LinearObjective)
        weight, bias, extra = objective.unpack(solved.minimum.points[place : place + 1])
        self.target.load(*self._basis.folded(weight[0], bias[0]), extra[0])


class MixtureFit(PathFit):
    """Layers are read as ``normalize`` leaves them, but for one common scale.

    The strength is chosen from the uniform start; at that strength the fit is repeated from near
    every layer's vertex. Where strengths are weak, many mixtures fit the drawn rows equally well,
    so the start is chosen as the strength is, and by the objective among equals.
    """

    row_axis = 1
    _means: Float64[Tensor, "layers dim"]
    _spread: Float64[Tensor, ""]
    _basis: Basis
    _spectrum: Float64[Tensor, " dim"]
    _mixture: Mixture
    _restarted: dict[int, tuple[Solved, list[Scores]]]
    """What other starts ended in, and its scores, by the place on the path that was chosen."""

    @property
    def width(self) -> int:
        """Values of all layers."""
        return len(self.member.spec.layers) * self.member.probe.head.dim

    def read(self, inputs: Inputs) -> Float[Tensor, "layers n dim"]:
        """Return the normalised layers of a block."""
        z = inputs.of(self.member.normalization, self.member.spec.layers)
        assert isinstance(z, Tensor), "a mixture of layers reads rows"
        return full(z.transpose(0, 1))

    def prepare(self) -> Visits:
        """Centre and scale the layers, and turn them to the components of their average."""
        moments = Moments()
        yield Visit("train", lambda rows, z: moments.add(z.transpose(0, 1)))
        self._restarted = {}
        self._means, deviation = moments.result()
        self._spread = deviation.square().mean().sqrt().clamp(min=1e-30)
        by_row = self.member.probe.head.per_row
        centre = self._means.mean(0, keepdim=True) if by_row else self._means
        centre32, spread = centre.float().unsqueeze(1), float(self._spread)
        width = centre.shape[1]
        scale = Scale(centre.new_zeros(width), centre.new_ones(width))
        builder = BasisBuilder(scale, max(len(self.rows.view("train")), width))
        if builder.reads:
            yield Visit("train", lambda rows, z: builder.add(((z - centre32) / spread).mean(0)))
        self._basis = builder.finish()
        rotation = self._basis.rotation
        self._spectrum = self._basis.spectrum if builder.reads else centre.new_ones(width)
        turned = (self._means - centre) / self._spread
        if rotation is None:
            self.rows.turn(lambda z: (z - centre32) / spread)
        else:
            turn = rotation.float()
            self.rows.turn(lambda z: ((z - centre32) / spread) @ turn)
            turned = turned @ rotation
        n_layers = len(self._means)
        self._mixture = RowMixture(turned) if by_row else SharedMixture(n_layers)

    def solve(self, problems: Problems) -> Generator[Visit, None, tuple[Objective, Minimum]]:
        """Solve problems from the uniform mixture."""
        uniform = self._mixture.starts()[0].to(self.rows.device)
        objective = self.objective(self.target.loss, problems)
        minimum = yield from self._descend(objective, uniform.expand(len(problems.l2), -1))
        return objective, minimum

    def objective(
        self, loss: Loss, problems: Problems, extra_l2: float = TRANSITIONS
    ) -> MixtureObjective:
        """Return the objective of a mixture and a linear layer."""
        return MixtureObjective(loss, self._mixture, problems, self._spectrum, extra_l2=extra_l2)

    def _descend(
        self, objective: MixtureObjective, mixtures: Float64[Tensor, "problems values"]
    ) -> Generator[Visit, None, Minimum]:
        """Fit the decoders under the mixtures that are given, then both."""
        held = objective.minimise(objective.start(mixtures), most=_WARM_UP, tolerance=TOLERANCE)
        warm = yield from drive(held, lambda request: objective.begin(request, fixed=True))
        both = objective.minimise(warm.points, most=MOST_ITERATIONS, tolerance=TOLERANCE)
        return (yield from drive(both, objective.begin))

    def refine(
        self, solved: Solved, place: int, judge: int
    ) -> Generator[Visit, None, tuple[Solved, int, dict[str, Any]]]:
        """Fit from every other start; what chose the strength chooses among their solutions."""
        found: dict[str, Any] = {"starts": 1}
        starts = self._other_starts()
        if starts:
            solved, place, found = yield from self._restart(solved, place, judge, starts)
        if judge:
            return solved, place, found
        residual = yield from self._residual(solved, place)
        converged = bool(solved.minimum.converged[place]) and residual <= _RESIDUAL
        return solved, place, found | {"projected_gradient": residual, "converged": converged}

    def _residual(self, solved: Solved, place: int) -> Generator[Visit, None, float]:
        """Return the projected gradient of the mixture of a solution over all drawn rows."""
        objective = self.objective(self.target.loss, self.problems((solved.strengths[place],)))
        point = solved.minimum.points[place : place + 1]
        evaluation = objective.begin(Request(torch.zeros_like(point[:, 0]).long(), point))
        yield Visit("train", evaluation.add)
        gradient = objective.unpack(evaluation.finish().gradient)[3]
        return float(self._mixture.residual(objective.unpack(point)[3], gradient))

    def _restart(
        self, solved: Solved, place: int, judge: int, starts: Sequence[Tensor]
    ) -> Generator[Visit, None, tuple[Solved, int, dict[str, Any]]]:
        """Fit from other starts; return the best solution, and what a record says of them."""
        if self._chosen[judge] not in self._restarted:
            again = yield from self._solve_again(solved, place, starts)
            self._restarted[self._chosen[judge]] = again
        others, scored = self._restarted[self._chosen[judge]]
        before = self._scores[self._chosen[judge]]
        scores = [own[judge] for own in (before, *scored)]
        ends = others.minimum.value[: len(starts)].tolist()
        values = [float(solved.minimum.value[place]), *ends]
        equal = self.best_of([before, *scored], judge)
        best = min(
            (n for n, score in enumerate(scores) if score == scores[equal]), key=values.__getitem__
        )
        gap = (max(values) - min(values)) / max(abs(min(values)), 1e-30)
        found = {"starts": len(values), "starts_gap": gap, "selection_score": scores[best]}
        if self.member.spec.select is None:
            del found["selection_score"]
        return (others, best - 1, found) if best else (solved, place, found)

    def _solve_again(
        self, solved: Solved, place: int, starts: Sequence[Tensor]
    ) -> Generator[Visit, None, tuple[Solved, list[Scores]]]:
        """Return the solutions of a strength from other starts, and their scores."""
        strengths = (solved.strengths[place],) * len(starts)
        problems = self.problems(strengths)
        objective = self.objective(self.target.loss, problems)
        mixtures = torch.stack(list(starts)).repeat(len(problems.parts), 1)
        minimum = yield from self._descend(objective, mixtures)
        others = Solved(strengths, objective, minimum)
        return others, (yield from self.score(others))

    def _other_starts(self) -> Sequence[Tensor]:
        starts = self._mixture.starts()[1:]
        if len(starts) > MOST_STARTS:
            places = torch.linspace(0, len(starts) - 1, MOST_STARTS).round().long().tolist()
            warn_once(
                logger,
                "%s: fits start near %d of %d layers, evenly spaced, and from the average.",
                self.member.spec.head.name,
                MOST_STARTS,
                len(starts),
            )
            starts = [starts[place] for place in places]
        return [start.to(self.rows.device) for start in starts]

    def load(self, solved: Solved, place: int) -> None:
        """Put a solution for layers as they came into head and decoder."""
        objective = solved.objective
        assert isinstance(objective, MixtureObjective)
        point = solved.minimum.points[place : place + 1]
        weight, bias, extra, mixture = (one[0] for one in objective.unpack(point))
        raw = self._basis.unrotated(weight) / self._spread
        if isinstance(self._mixture, RowMixture):
            values = self._basis.unrotated(mixture) / self._spread
            centre = self._means.mean(0)
        else:
            values = mixture - mixture.mean()
            centre = mixture.softmax(0) @ self._means
        self.member.probe.head.load_mixture(values)
        self.target.load(raw, bias - raw @ centre, extra)
