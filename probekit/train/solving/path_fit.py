"""A decoder alone: solved along the path of strengths, or as the runner of sae-probes does."""

import warnings
from abc import abstractmethod
from collections.abc import Generator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.base.tensors import full
from probekit.errors import OptionError
from probekit.probe.fitters.linear_problems import TRANSITIONS, LinearObjective, Problems, RidgeSums
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.preconditioner import Basis, BasisBuilder, Scale
from probekit.probe.normalization.standardization import Moments
from probekit.train.solving.solved_fit import Solved, SolvedFit, SplitName, Visit, Visits
from probekit.train.solving.strength_path import Path
from probekit.train.source import Inputs

Decoders = tuple[
    Float64[Tensor, "parts k w"], Float64[Tensor, "parts k"], Float64[Tensor, "parts e"]
]
"""Weights and biases for rows as they came, and the loss's own values."""


class PathFit(SolvedFit):
    """One member solved for all strengths of the path; its selection chooses one.

    Attributes:
        path: what was tried.
    """

    path: Path

    @abstractmethod
    def prepare(self) -> Visits:
        """Look at the rows, and turn them into a basis."""

    @abstractmethod
    def begin(self, strengths: tuple[float, ...]) -> Generator[Visit, None, Solved]:
        """Return the problems of some strengths, which are solved later or at once."""

    @abstractmethod
    def load(self, solved: Solved, index: int) -> None:
        """Put a solution into the member.

        Args:
            solved: a stretch.
            index: of the strength in it.
        """

    def visits(self) -> Visits:
        """Solve along the path, and load what was chosen."""
        # a pass over the disk costs more than it would save
        n_rows = len(self.rows.view("train")) if self.rows.held else 0
        n_products = n_rows * self.width * self.target.loss.n_logits
        self.path = Path(self.member.spec.l2, self.better, self.n_judged, n_products)
        yield from self.prepare()
        yield from self.path.solve(self.begin, self.scores)
        self.load(*self.path.chosen)
        self.member.solved = self.diagnosis

    @property
    def best_score(self) -> float | None:
        """The best score so far on what chooses; None before the first, or without any."""
        if not self.path.scores or self.member.spec.select is None:
            return None
        return self.path.score

    @property
    def diagnosis(self) -> dict[str, Any]:
        """What a record says of what was chosen."""
        solved, index = self.path.chosen
        diagnosis = solved.said(index)
        if self.member.spec.select is None:
            return diagnosis
        if self.path.edge is not None:
            diagnosis["edge"] = self.path.edge
        tried = {"strengths": self.path.strengths, "strength_scores": [*self.path.scores]}
        return diagnosis | tried | {"selection_score": self.path.score}


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

    def begin(self, strengths: tuple[float, ...]) -> Generator[Visit, None, Solved]:
        """Return problems for L-BFGS, or solve them at once."""
        problems = self.problems(strengths)
        objective = self.objective(self.target.loss, problems)
        if self.member.spec.fitter != "ridge":
            return Solved.begun(strengths, objective)
        ridge = RidgeSums(problems, self.target.values)
        yield Visit("train", ridge.add)
        return Solved(strengths, objective, ridge.finish())

    def load(self, solved: Solved, index: int) -> None:
        """Put weights for rows as they came into the decoder."""
        self.target.load(*(values[0] for values in self.decoders(solved, index)))

    def decoders(self, solved: Solved, index: int) -> Decoders:
        """Return what was found on every part of the rows, that on all of them first."""
        objective = solved.objective
        assert isinstance(objective, LinearObjective)
        weight, bias, extra = objective.unpack(solved.of_parts(index))
        return *self._basis.folded(weight, bias), extra


INVERSE_STRENGTHS = np.logspace(5, -5, 10)
"""The C of scikit-learn that are tried; of equals the first is chosen."""

SPLITS: tuple[SplitName, SplitName] = ("train", "judge")

_MOST_ITERATIONS = 1000
_SEED = 42
"""Of the order of the rows in the last fit."""


class SaeProbesFit(LinearFit):
    """A decoder of two classes by scikit-learn, on rows as they are, in float64.

    It is fitted as the runner of sae-probes does (Kantamneni et al. 2025).

    dev chooses C by AUROC, and a last fit has its rows as well. The member is left as dev chose it,
    so that dev scores what did not see it; the last fit is the member's ``refitted``.
    """

    _score: float | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the problems, as `SolvedFit` does.

        Raises:
            OptionError: train has other than two classes, dev not the same two, or no split
                chooses.
        """
        super().__init__(*args, **kwargs)
        classes = [np.unique(self.rows.view(split).targets) for split in SPLITS]
        if len(classes[0]) != 2 or classes[0].tolist() != classes[1].tolist():
            raise OptionError(
                "--fit sae-probes fits two classes, which train and dev must both have; leave "
                "--fit out."
            )
        if (select := self.member.spec.select) is None or not select.by_split:
            raise OptionError("--fit sae-probes chooses C on dev: leave out --select and --l2.")

    @property
    def best_score(self) -> float | None:
        """The best AUROC on dev; None before the last fit."""
        return self._score

    def visits(self) -> Visits:
        """Fit with every C, load what dev chose, and fit with that C on train and dev."""
        from sklearn.metrics import roc_auc_score  # slow to import

        blocks: dict[SplitName, list[np.ndarray]] = {split: [] for split in SPLITS}
        for split in SPLITS:
            yield Visit(split, lambda _, h, to=blocks[split]: to.append(h.double().cpu().numpy()))  # type: ignore[misc]
        x, x_dev = (np.concatenate(blocks[split]) for split in SPLITS)
        y, y_dev = (self.rows.view(split).targets for split in SPLITS)
        fits = [_fit(c, x, y) for c in INVERSE_STRENGTHS]
        scores = [roc_auc_score(y_dev, fit.predict_proba(x_dev)[:, 1]) for fit in fits]
        best = int(np.argmax(scores))
        self._score = float(scores[best])
        order = np.random.RandomState(_SEED).permutation(len(x) + len(x_dev))
        both = np.concatenate([x, x_dev])[order], np.concatenate([y, y_dev])[order]
        last = _fit(INVERSE_STRENGTHS[best], *both)
        self._load(last)
        state = self.member.probe.state_dict()
        self.member.refitted = {name: value.clone() for name, value in state.items()}
        self._load(fits[best])
        iterations = [int(fit.n_iter_[0]) for fit in (fits[best], last)]
        strengths = [1 / (c * len(x)) for c in INVERSE_STRENGTHS.tolist()]
        self.member.solved = {
            "converged": max(iterations) < _MOST_ITERATIONS,
            "iterations": max(iterations),
            "strength": strengths[best],
            "strengths": strengths,
            "strength_scores": [float(score) for score in scores],
            "selection_score": self._score,
        }

    def _load(self, fit: Any) -> None:
        """Put what scikit-learn found into the decoder."""
        weight, bias = (torch.from_numpy(np.float64(v)) for v in (fit.coef_, fit.intercept_))
        device = self.rows.device
        self.target.load(weight.to(device), bias.to(device), weight.new_zeros(0, device=device))


def _fit(c: float, x: np.ndarray, y: np.ndarray) -> Any:
    """Return a `LogisticRegression` of scikit-learn that stops where the runner's does."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression  # slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record says it
        return LogisticRegression(C=c, max_iter=_MOST_ITERATIONS).fit(x, y)
