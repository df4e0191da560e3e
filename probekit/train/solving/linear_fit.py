"""A decoder solved on what a head that trains nothing makes of the rows."""

from collections.abc import Generator

from probekit.probe.fitters.basis import Basis, BasisBuilder, Scale
from probekit.probe.fitters.linear_problems import TRANSITIONS, LinearObjective, Problems, RidgeSums
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import Minimum
from probekit.probe.normalization.standardization import Moments
from probekit.train.solving.path_fit import Objective, PathFit, Solved, drive
from probekit.train.solving.solver import Visit, Visits


class LinearFit(PathFit):
    """A decoder alone: rows are standardised inside the fit, so that their scale moves no score."""

    _basis: Basis

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
