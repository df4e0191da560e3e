"""What training returns: a frozen value, never a half-trained module."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class FitResult:
    """The outcome of one training run.

    Attributes:
        state: tensors of the best checkpoint (CPU): ``head.*``, ``decoder.*``,
            ``normalization.*``.
        modules: dict forms of head, decoder and normalisation, by those names.
        layers: layers that the head reads, ascending.
        eval_score: best dev score, 0..1.
        eval_last: dev score after the last step.
        best_step: step of the best dev score.
        best_epoch: the same in epochs; a fraction inside an epoch.
        test_score: test score of the best checkpoint; ``None`` without a test split.
        scores: the metric's other scores by the best checkpoint, as ``dev/NAME``, ``test/NAME``.
        curve: (step, mean training loss since the last point, dev score).
        weights: weight of each layer by the best checkpoint, after softmax where there is one;
            the mean over the dev rows where rows differ.
        raw_weights: the same before softmax; ``None`` for a head without one.
        class_weights: weight of each layer, averaged over the dev rows of each gold class; empty
            for a head that gives all rows the same weights.
        diverged: whether the loss or a trained value ceased to be finite. The best checkpoint is
            from before; where none was, the scores are arbitrary, and weights that are not finite
            are left out.
        diagnosis: how the fit went, by name, as a record holds it.
        confusion: dev rows by gold class (``rows``) and predicted class (``columns``): ``counts``;
            ``None`` where no classes are predicted.
        n_params: trained values, head and decoder together.
        n_head_params: trained values of the head alone.
        train_seconds: seconds spent in the steps of this run, its share of reading included;
            linear probes that step together share their time equally.
        predictions: class number, value or loss of each row by the best checkpoint, by split name,
            on request.
    """

    state: Mapping[str, Tensor] = field(repr=False)
    modules: Mapping[str, Mapping[str, Any]]
    layers: tuple[int, ...]
    eval_score: float
    eval_last: float
    best_step: int
    best_epoch: float
    test_score: float | None
    scores: Mapping[str, float]
    curve: tuple[tuple[int, float, float], ...]
    weights: Mapping[int, float]
    raw_weights: Mapping[int, float] | None
    class_weights: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    diverged: bool = False
    diagnosis: Mapping[str, Any] = field(default_factory=dict)
    confusion: Mapping[str, Any] | None = None
    n_params: int
    n_head_params: int
    train_seconds: float
    predictions: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
