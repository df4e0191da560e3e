"""What a fitted linear classifier says of rows: one logit for two classes, else one for each."""

import numpy as np
from jaxtyping import Float64, Shaped
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin


class LinearRule(ClassifierMixin, BaseEstimator):
    """A classifier by ``coef_ h + intercept_``.

    Attributes:
        classes_: the classes, sorted.
        coef_: (1, width) for two classes, else (classes, width).
        intercept_: one per row of ``coef_``.
    """

    classes_: Shaped[np.ndarray, " classes"]
    coef_: Float64[np.ndarray, "logits width"]
    intercept_: Float64[np.ndarray, " logits"]

    @classmethod
    def of(cls, classes: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> "LinearRule":
        """Return the classifier of some numbers, fitted."""
        rule = LinearRule()
        rule.classes_, rule.coef_, rule.intercept_ = classes, coef, intercept
        return rule

    def _logits(self, X: Shaped[np.ndarray, "rows width"]) -> Float64[np.ndarray, "rows logits"]:
        return X @ self.coef_.T + self.intercept_

    def decision_function(self, X: Shaped[np.ndarray, "rows width"]) -> np.ndarray:
        """Return logits: (rows,) for two classes, of the second; else (rows, classes)."""
        logits = self._logits(X)
        return logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X: Shaped[np.ndarray, "rows width"]) -> np.ndarray:
        """Return the most probable class of each row."""
        logits = self._logits(X)
        two = len(self.classes_) == 2
        return self.classes_[(logits[:, 0] > 0).astype(int) if two else logits.argmax(1)]

    def predict_proba(self, X: Shaped[np.ndarray, "rows width"]) -> np.ndarray:
        """Return probabilities, (rows, classes)."""
        logits = self._logits(X)
        two = len(self.classes_) == 2
        return expit(np.hstack([-logits, logits])) if two else softmax(logits, axis=1)

    def predict_log_proba(self, X: Shaped[np.ndarray, "rows width"]) -> np.ndarray:
        """Return logarithms of probabilities, (rows, classes)."""
        logits = self._logits(X)
        two = len(self.classes_) == 2
        return log_expit(np.hstack([-logits, logits])) if two else log_softmax(logits, axis=1)
