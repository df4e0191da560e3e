"""Logistic regression as the runner of sae-probes fits it (Kantamneni et al. 2025)."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from probekit.errors import OptionError
from probekit.train.solving.path_fit import LinearFit
from probekit.train.solving.solved_fit import SplitName, Visit, Visits

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

INVERSE_STRENGTHS = np.logspace(5, -5, 10)
"""The C of scikit-learn that are tried; of equals the first is chosen."""

SPLITS: tuple[SplitName, SplitName] = ("train", "judge")

_MOST_ITERATIONS = 1000
_SEED = 42
"""Of the order of the rows in the last fit."""


class SaeProbesFit(LinearFit):
    """A decoder of two classes by scikit-learn, on rows as they are, in float64.

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

    def _load(self, fit: "LogisticRegression") -> None:
        """Put what scikit-learn found into the decoder."""
        weight, bias = (torch.from_numpy(np.float64(v)) for v in (fit.coef_, fit.intercept_))
        device = self.rows.device
        self.target.load(weight.to(device), bias.to(device), weight.new_zeros(0, device=device))


def _fit(c: float, x: np.ndarray, y: np.ndarray) -> "LogisticRegression":
    """Return a logistic regression that stops where the runner's does."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression  # slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record says it
        return LogisticRegression(C=c, max_iter=_MOST_ITERATIONS).fit(x, y)
