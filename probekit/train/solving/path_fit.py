"""A decoder alone: solved along the path of strengths, or as the runner of sae-probes does."""

import itertools
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.base.tensors import full
from probekit.errors import OptionError
from probekit.probe.fitters.linear_problems import (
    TRANSITIONS,
    LinearObjective,
    Problems,
    RidgeSums,
    weaker_strengths,
)
from probekit.probe.fitters.losses import Loss
from probekit.probe.fitters.minimise import TOLERANCE
from probekit.probe.fitters.preconditioner import Basis, BasisBuilder, Scale
from probekit.probe.normalization.standardization import Moments
from probekit.train.solving.solved_fit import HELD_ROWS, Solved, SolvedFit, SplitName, Visit, Visits
from probekit.train.source import Inputs

Decoders = tuple[
    Float64[Tensor, "parts k w"], Float64[Tensor, "parts k"], Float64[Tensor, "parts e"]
]
"""Weights and biases for rows as they came, and the loss's own values."""


LOOSER = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)
"""Tolerances at which strengths that are behind are left."""

LARGE = 2e7
"""Products of one evaluation of a problem from which leaving some saves more than scores cost."""


@dataclass(eq=False)
class _Tried:
    """A strength of L2.

    Attributes:
        solved: what holds its problems.
        place: of the strength there.
        score: of where they are, on what chooses; NaN before the first.
        moved: how far the score went with the last step.
        reached: tolerance up to which they are solved.
    """

    solved: Solved
    place: int
    score: float = math.nan
    moved: float = math.inf
    reached: float = math.inf


class Path:
    """Strengths of L2 that were tried, falling, with their solutions and scores.

    Of large problems all are solved loosely, and fewer and fewer more closely: a strength is left
    where its score is behind the best by more than 2/n, with n examples, and more than both moved
    with their last steps. It goes on if the best falls back. The chosen one is solved to the end,
    on every part of the rows.
    """

    def __init__(
        self,
        fixed: float | None,
        better: Callable[[float], float],
        n_judged: int,
        n_products: int,
    ) -> None:
        """Start without a strength.

        Args:
            fixed: the only strength that is tried; None tries those of the whole path.
            better: returns a score that rises with what it is a score of.
            n_judged: examples that scores are of.
            n_products: of an evaluation of one problem: rows x width x logits.
        """
        self._fixed, self._better, self._slack = fixed, better, 2 / max(n_judged, 1)
        self._looser = LOOSER if fixed is None and n_products >= LARGE else ()
        self._tried: list[_Tried] = []
        self._going: list[_Tried] = []

    def solve(
        self,
        begin: Callable[[tuple[float, ...]], Generator[Visit, None, Solved]],
        score: Callable[[Solved], Generator[Visit, None, list[float]]],
    ) -> Visits:
        """Solve all strengths, weaker ones as well while the weakest that was tried is the best.

        Args:
            begin: returns the problems of some strengths.
            score: returns the score of each of them.
        """
        strengths = weaker_strengths(()) if self._fixed is None else (self._fixed,)
        while strengths:
            solved = yield from begin(strengths)
            joining = [_Tried(solved, place) for place in range(len(strengths))]
            self._tried += joining
            self._going += joining
            for tolerance in () if solved.descent is None else self._looser:
                yield from self._go_on(tolerance, score)
                self._choose()
            while any(one.reached > TOLERANCE for one in self._going):
                yield from self._go_on(TOLERANCE, score)
                self._choose()
            at_end = self._fixed is None and self._best is self._tried[-1]
            strengths = weaker_strengths(self.strengths) if at_end else ()
        for one in self._tried:
            one.solved = one.solved.done()

    def _go_on(
        self,
        tolerance: float,
        score: Callable[[Solved], Generator[Visit, None, list[float]]],
    ) -> Visits:
        """Solve those that are further from their solutions than a tolerance, and score them."""
        further = [one for one in self._going if one.reached > tolerance]
        for solved, alike in itertools.groupby(further, key=lambda one: one.solved):
            some = [*alike]
            places = [one.place for one in some]
            stepped = yield from solved.go_on(places, tolerance / TOLERANCE)
            scores = yield from score(solved.only(places))
            for one, has_stepped, value in zip(some, stepped, scores, strict=True):
                if tolerance == TOLERANCE:
                    one.moved = 0.0
                elif has_stepped and one.reached < math.inf:
                    one.moved = abs(value - one.score)
                one.score, one.reached = value, tolerance

    def _choose(self) -> None:
        """Let those go on that may be the best, among them what was left before."""
        best = self._best
        least = self._better(best.score) - best.moved - self._slack
        self._going = [
            one
            for one in self._tried
            if one is best or not self._better(one.score) + one.moved < least  # NaN goes on
        ]

    @property
    def scores(self) -> list[float]:
        """Of every strength, on what chooses: of one that was left, where it was left."""
        return [one.score for one in self._tried if one.reached < math.inf]

    @property
    def strengths(self) -> list[float]:
        """All that were tried."""
        return [one.solved.strengths[one.place] for one in self._tried]

    @property
    def chosen(self) -> tuple[Solved, int]:
        """The stretch and the place in it of the best score, the strongest of equals."""
        best = self._best
        return best.solved, best.place

    @property
    def score(self) -> float:
        """The best score."""
        return self._best.score

    @property
    def strength(self) -> float:
        """The strength that was chosen."""
        solved, place = self.chosen
        return solved.strengths[place]

    @property
    def edge(self) -> str | None:
        """Which end of the path was chosen, where no other strength is as good."""
        ends = {id(self._tried[0]): "strongest", id(self._tried[-1]): "weakest"}
        return ends.get(id(self._best)) if self.scores.count(self.score) == 1 else None

    @property
    def _best(self) -> _Tried:
        scored = [one for one in self._going if one.reached < math.inf]
        return scored[int(np.argmax([self._better(one.score) for one in scored]))]


def solve_rows(
    z: Float[Tensor, "n r"],
    loss: Loss,
    parts: Float[Tensor, "parts n"],
    spectrum: Float64[Tensor, " r"],
    *,
    l2: float | None,
    score: Callable[[Solved], list[float]],
    n_judged: int,
) -> Path:
    """Solve linear layers over rows in memory, along the path of strengths or at one.

    Args:
        z: rows in a basis.
        loss: of the rows.
        parts: weight of each row in each part of them, see `Problems.of`.
        spectrum: mean square of each column.
        l2: the only strength; None tries those of the whole path.
        score: returns a score of each solution, the higher the better.
        n_judged: rows that it is of.
    """

    def begin(strengths: tuple[float, ...]) -> Generator[Visit, None, Solved]:
        yield from ()
        return Solved.begun(
            strengths, LinearObjective(loss, Problems.of(strengths, parts), spectrum)
        )

    def scored(solved: Solved) -> Generator[Visit, None, list[float]]:
        yield from ()
        return score(solved)

    path = Path(l2, float, n_judged, z.numel() * loss.n_logits)
    for visit in path.solve(begin, scored):
        for start in range(0, len(z), HELD_ROWS):
            block = z[start : start + HELD_ROWS]
            visit.take(slice(start, start + len(block)), block)
    return path


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
