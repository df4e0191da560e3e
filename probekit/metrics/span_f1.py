"""Span F1 as CoNLL scores it: seqeval's default, lenient mode, fast enough for every evaluation.

Lenient means that gold ``B-PER I-PER`` and predicted ``I-PER I-PER`` are the same span, as
conlleval reads them and as the papers report; seqeval's strict mode would score 0.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64, Num

from probekit.metrics.accuracy import Accuracy, accuracy
from probekit.metrics.contract import ClassScorer, Metric, expect
from probekit.metrics.gold import AnyGold, Gold, Ids
from probekit.metrics.resampling import Parts, Scores, per_example
from probekit.metrics.spans import SpanFinder, Spans

Counts = Int64[np.ndarray, " types"]
Ratios = Float64[np.ndarray, " types"]
Numbers = Num[np.ndarray, " types"]


@dataclass(frozen=True, kw_only=True)
class SpanF1(Metric):
    """Micro-averaged F1 over spans: a span counts when its first word, last word and type agree.

    Scores: ``span-f1``, ``precision``, ``recall``, ``accuracy`` (of words), and ``f1/TYPE`` for
    every type that the gold or the predicted side has. Labels without a type have type "_".
    """

    name: ClassVar[str] = "span-f1"
    summary: ClassVar[str] = "micro F1 over entity spans, seqeval's default mode"

    def prepare(self, gold: AnyGold) -> "SpanF1Scorer":
        """Return the scorer of one split; the gold spans are found once, here."""
        return SpanF1Scorer(expect(self, gold, Gold))


class SpanF1Scorer(ClassScorer):
    """Scorer of `SpanF1`."""

    def __init__(self, gold: Gold) -> None:
        """Find the gold spans."""
        super().__init__(gold)
        self._finder = SpanFinder(gold.names, gold.offsets)
        spans = self._finder.find(gold.ids)
        self._start = np.full(self._finder.n_places, -1, dtype=np.int64)
        self._start[spans.stop] = spans.start
        self._type = np.zeros(self._finder.n_places, dtype=np.int64)
        self._type[spans.stop] = spans.type
        self._n_gold = self._count(spans.type)

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return micro F1, precision, recall and F1 per type; equal to `judge`, bit for bit."""
        self.check(predicted)
        spans = self._finder.find(predicted)
        right = self._is_right(spans)
        n_right, n_found = self._count(spans.type[right]), self._count(spans.type)
        total = _f1(
            n_right.sum(keepdims=True), n_found.sum(keepdims=True), self._n_gold.sum(keepdims=True)
        )
        per_type = _f1(n_right, n_found, self._n_gold)[2]
        present = np.flatnonzero(n_found + self._n_gold)
        types = [self._finder.types[i] for i in present]
        micro = [float(ratio[0]) for ratio in total]
        return _scores(micro, accuracy(self.gold, predicted), types, per_type[present])

    def parts(self, predicted: Ids) -> Parts:
        """Return the right, the predicted and the gold spans of each example."""
        self.check(predicted)
        spans = self._finder.find(predicted)
        places = np.zeros((self._finder.n_places, 3))
        places[spans.stop, 0] = self._is_right(spans)
        places[spans.stop, 1] = 1
        places[:, 2] = self._start >= 0
        bounds = self.gold.offsets + np.arange(len(self.gold.offsets))
        return per_example(places, bounds)

    def combine(self, sums: Float64[np.ndarray, "samples parts"]) -> Scores:
        """Return micro F1."""
        return _f1(*sums.T)[2]

    def judge(self, predicted: Ids) -> dict[str, float]:
        """Return the same scores computed by seqeval itself."""
        self.check(predicted)
        return span_f1_seqeval(self._decode(self.gold.ids), self._decode(predicted))

    def _is_right(self, spans: Spans) -> Bool[np.ndarray, " spans"]:
        same = self._start[spans.stop] == spans.start
        return same & (self._type[spans.stop] == spans.type)

    def _count(self, types: Int64[np.ndarray, " spans"]) -> Counts:
        return np.bincount(types, minlength=len(self._finder.types)).astype(np.int64)

    def _decode(self, ids: Ids) -> list[list[str]]:
        words = [self.gold.names[i] for i in ids]
        bounds = self.gold.offsets.tolist()
        return [words[a:b] for a, b in pairwise(bounds)]


def span_f1_seqeval(gold: Sequence[list[str]], predicted: Sequence[list[str]]) -> dict[str, float]:
    """Return the scores of `SpanF1` by seqeval 1.2.2 in its default mode.

    Args:
        gold: one list of label names per example.
        predicted: the same shape.
    """
    from seqeval.metrics import sequence_labeling as seqeval  # slow to import: it needs sklearn

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns about every label without B, I, E or S
        micro = seqeval.precision_recall_fscore_support(
            gold, predicted, average="micro", zero_division=0
        )
        per_type = seqeval.precision_recall_fscore_support(
            gold, predicted, average=None, zero_division=0
        )
        spans = {*seqeval.get_entities(gold), *seqeval.get_entities(predicted)}
    types = sorted({type_ for type_, _, _ in spans})
    words = float(seqeval.accuracy_score(gold, predicted))
    return _scores([float(ratio) for ratio in micro[:3]], words, types, per_type[2])


def _scores(
    total: Sequence[float], words: float, types: Sequence[str], type_f1: Ratios
) -> dict[str, float]:
    precision, recall, f1 = total
    main = {SpanF1.name: f1, "precision": precision, "recall": recall, Accuracy.name: words}
    return main | {f"f1/{t}": float(v) for t, v in zip(types, type_f1, strict=True)}


def _f1(right: Numbers, found: Numbers, gold: Numbers) -> tuple[Ratios, Ratios, Ratios]:
    precision = right / np.maximum(found, 1)
    recall = right / np.maximum(gold, 1)
    total = precision + recall
    f1 = 2 * precision * recall / np.where(total == 0, 1.0, total)
    return precision, recall, f1
