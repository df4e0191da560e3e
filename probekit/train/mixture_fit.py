"""A mixture of the layers and its decoder solved together, from several starts."""

import logging
from collections.abc import Generator, Sequence
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from probekit.fitters.basis import BasisBuilder, Scale
from probekit.fitters.linear import Problems
from probekit.fitters.minimise import Minimum
from probekit.fitters.mixtures import Mixture, MixtureObjective, RowMixture, SharedMixture
from probekit.fitters.path import TRANSITIONS
from probekit.heads.moments import Moments
from probekit.once import warn_once
from probekit.train.path_fit import Objective, PathFit, Solved, drive
from probekit.train.solver import Visit, Visits

logger = logging.getLogger(__name__)

MOST_STARTS = 12
"""Layers near whose vertex a fit starts; of more, as many, evenly spaced."""

MOST_ITERATIONS = 400
_WARM_UP = 40
"""Iterations with the mixture held, before both are fitted."""

_RESIDUAL = 1e-3
"""Largest projected gradient of the mixture, relative to the objective, that is convergence."""


class MixtureFit(PathFit):
    """Layers are read as ``normalize`` leaves them, but for one common scale.

    The strength is chosen from the uniform start; at that strength the fit is repeated from near
    every layer's vertex, and the smallest objective is kept.
    """

    _means: Float64[Tensor, "layers dim"]
    _spread: Float64[Tensor, ""]
    _rotation: Float64[Tensor, "dim dim"]
    _spectrum: Float64[Tensor, " dim"]
    _mixture: Mixture

    def prepare(self) -> Visits:
        """Centre and scale the layers, and turn them to the components of their average."""
        moments = Moments()
        yield Visit("train", lambda rows, z: moments.add(z.transpose(0, 1)))
        self._means, deviation = moments.result()
        self._spread = deviation.square().mean().sqrt().clamp(min=1e-30)
        by_row = self.member.probe.head.per_row
        centre = self._means.mean(0, keepdim=True) if by_row else self._means
        centre32, spread = centre.float().unsqueeze(1), float(self._spread)
        width = centre.shape[1]
        scale = Scale(centre.new_zeros(width), centre.new_ones(width))
        builder = BasisBuilder(scale, max(len(self.rows.view("train")), width))
        yield Visit("train", lambda rows, z: builder.add(((z - centre32) / spread).mean(0)))
        basis = builder.finish()
        assert basis.rotation is not None, "states are no wider than what is rotated"
        self._rotation, self._spectrum = basis.rotation, basis.spectrum
        rotation = basis.rotation.float()
        self.rows.turn(lambda z: ((z - centre32) / spread) @ rotation)
        turned = (self._means - centre) / self._spread @ basis.rotation
        n_layers = len(self._means)
        self._mixture = RowMixture(turned) if by_row else SharedMixture(n_layers)

    def solve(self, problems: Problems) -> Generator[Visit, None, tuple[Objective, Minimum]]:
        """Solve problems from the uniform mixture."""
        uniform = self._mixture.starts()[0].to(self.rows.device)
        objective = self._objective(problems)
        minimum = yield from self._descend(objective, uniform.expand(len(problems.l2), -1))
        return objective, minimum

    def _objective(self, problems: Problems) -> MixtureObjective:
        return MixtureObjective(
            self.target.loss, self._mixture, problems, self._spectrum, extra_l2=TRANSITIONS
        )

    def _descend(
        self, objective: MixtureObjective, mixtures: Float64[Tensor, "problems values"]
    ) -> Generator[Visit, None, Minimum]:
        """Fit the decoders under the mixtures that are given, then both."""
        held = objective.minimise(objective.start(mixtures), most=_WARM_UP)
        warm = yield from drive(held, lambda request: objective.begin(request, fixed=True))
        both = objective.minimise(warm.points, most=MOST_ITERATIONS)
        return (yield from drive(both, objective.begin))

    def finish(self, solved: Solved, place: int) -> Generator[Visit, None, dict[str, Any]]:
        """Fit from every other start, and load the solution with the smallest objective."""
        points = [solved.minimum.points[place]]
        values = [float(solved.minimum.value[place])]
        starts = self._other_starts()
        if starts:
            problems = self.whole(solved.strengths[place], len(starts))
            objective = self._objective(problems)
            minimum = yield from self._descend(objective, torch.stack(list(starts)))
            points += list(minimum.points)
            values += minimum.value.tolist()
        best = min(range(len(values)), key=values.__getitem__)
        self._load(self._objective(self.whole(solved.strengths[place], 1)), points[best])
        gap = (max(values) - values[best]) / max(abs(values[best]), 1e-30)
        found = {"starts": len(values), "starts_gap": gap, "objective": values[best]}
        if best:
            found["converged"] = bool(minimum.converged[best - 1])
            found["iterations"] = int(minimum.iterations[best - 1])
        return found

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

    def _load(self, objective: MixtureObjective, point: Float64[Tensor, " values"]) -> None:
        """Put a solution for layers as they came into head and decoder."""
        weight, bias, extra, mixture = (one[0] for one in objective.unpack(point.unsqueeze(0)))
        raw = weight @ self._rotation.t() / self._spread
        if isinstance(self._mixture, RowMixture):
            values = self._rotation @ mixture / self._spread
            centre = self._means.mean(0)
        else:
            values = mixture - mixture.mean()
            centre = mixture.softmax(0) @ self._means
        self.member.probe.head.load_mixture(values)
        self.target.load(raw, bias - raw @ centre, extra)
