"""Span F1 as CoNLL scores it: seqeval's default, lenient mode, fast enough for every evaluation.

Lenient means that gold ``B-PER I-PER`` and predicted ``I-PER I-PER`` are the same span, as
conlleval reads them and as the papers report; seqeval's strict mode would score 0.

A label is a prefix (its first character) and a type (what follows the first hyphen after it; "_"
when nothing does). Whether a span starts at, or ended before, a word depends on that word's label
and the one before alone, so two tables over label pairs decide everything.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64, Num

from probekit.metrics.class_metrics import Accuracy
from probekit.metrics.contract import (
    ClassMetric,
    Gold,
    Ids,
    Offsets,
    Parts,
    Scores,
    Sums,
    per_example,
)

Ratios = Float64[np.ndarray, " types"]
Numbers = Num[np.ndarray, " types"]

# Two examples, "B-PER I-PER O" and "B-LOC": every one is followed by an "O" of its own, so that
# no span runs from one into the next.
#
#   place    0      1      2      3      4      5
#   label    B-PER  I-PER  O      (O)    B-LOC  (O)
#   word     0      1      2             3
#
# Words have the places [0, 1, 2, 4]. Spans start at places 0 and 4. An end is known one place
# later, from the pair of labels there: (I-PER, O) at place 2 and (B-LOC, O) at place 5. So the
# spans are start [0, 4] and stop [2, 5]: the start of each is the latest one before its stop, and
# its type that of the label just before its stop.
_ENDS = {("B", "B"), ("B", "S"), ("B", "O"), ("I", "B"), ("I", "S"), ("I", "O")}
_STARTS = {("E", "E"), ("E", "I"), ("S", "E"), ("S", "I"), ("O", "E"), ("O", "I")}


@dataclass(frozen=True)
class Spans:
    """Spans of a whole split.

    Attributes:
        stop: position after the span's last word, ascending, each once; positions count one "O"
            after every example.
        start: position of its first word.
        type: index into ``SpanFinder.types``.
    """

    stop: Int64[np.ndarray, " spans"]
    start: Int64[np.ndarray, " spans"]
    type: Int64[np.ndarray, " spans"]


class SpanFinder:
    """Finds the spans of one split; the tables are made once for its labels and examples."""

    def __init__(self, names: tuple[str, ...], offsets: Offsets) -> None:
        """Make the tables.

        Args:
            names: label names; ids index them.
            offsets: bounds of the examples, (examples + 1,).
        """
        parts = [(name[0], name[1:].split("-", maxsplit=1)[-1] or "_") for name in (*names, "O")]
        self.types = tuple(sorted({type_ for _, type_ in parts}))
        self._outside = len(names)
        self._type_of = np.array([self.types.index(type_) for _, type_ in parts], dtype=np.int64)
        starts, ends = [], []
        for (before, type_before), (prefix, type_) in product(parts, parts):
            changed = type_before != type_
            starts.append(
                prefix in "BS" or (before, prefix) in _STARTS or (changed and prefix not in "O.")
            )
            ends.append(
                before in "ES" or (before, prefix) in _ENDS or (changed and before not in "O.")
            )
        self._starts, self._ends = np.array(starts), np.array(ends)
        lengths = np.diff(offsets)
        self._places = np.arange(offsets[-1]) + np.repeat(np.arange(len(lengths)), lengths)
        self.n_places = int(offsets[-1]) + len(lengths)

    def find(self, ids: Ids) -> Spans:
        """Return the spans of one labelling."""
        labels = np.full(self.n_places, self._outside, dtype=np.int64)
        labels[self._places] = ids
        before = np.concatenate(([self._outside], labels[:-1]))
        pairs = before * (self._outside + 1) + labels
        # An end without a start of its own takes the latest start there was, as in seqeval.
        starts = np.where(self._starts[pairs], np.arange(self.n_places), 0)
        latest = np.maximum.accumulate(starts)
        stop = np.flatnonzero(self._ends[pairs])
        return Spans(stop, latest[stop - 1], self._type_of[before[stop]])


class SpanF1(ClassMetric):
    """Micro-averaged F1 over spans: a span counts when its first word, last word and type agree.

    Scores: ``span-f1``, ``precision``, ``recall``, ``accuracy`` (of words), and ``f1/TYPE`` for
    every type that the gold or the predicted side has. Labels without a type have type "_".
    """

    name: ClassVar[str] = "span-f1"
    text: ClassVar[str] = "span F1"
    summary: ClassVar[str] = "micro F1 over entity spans, seqeval's default mode"

    def __init__(self, gold: Gold) -> None:
        """Find the gold spans."""
        super().__init__(gold)
        self._finder = SpanFinder(gold.names, gold.offsets)
        spans = self._finder.find(gold.ids)
        self._start = np.full(self._finder.n_places, -1, dtype=np.int64)
        self._start[spans.stop] = spans.start
        self._type = np.zeros(self._finder.n_places, dtype=np.int64)
        self._type[spans.stop] = spans.type
        self._count = partial(np.bincount, minlength=len(self._finder.types))
        self._n_gold = self._count(spans.type)

    def score(self, predicted: Ids) -> dict[str, float]:
        """Return micro F1, precision, recall and F1 per type; seqeval's, bit for bit."""
        self.gold.check(predicted)
        spans = self._finder.find(predicted)
        right = self._is_right(spans)
        n_right, n_found = self._count(spans.type[right]), self._count(spans.type)
        counts = n_right, n_found, self._n_gold
        totals = (count.sum(keepdims=True) for count in counts)
        precision, recall, f1 = (float(ratio[0]) for ratio in _f1(*totals))
        words = float((predicted == self.gold.ids).mean())
        main = {SpanF1.name: f1, "precision": precision, "recall": recall, Accuracy.name: words}
        per_type, present = _f1(*counts)[2], np.flatnonzero(n_found + self._n_gold)
        return main | {f"f1/{self._finder.types[i]}": float(per_type[i]) for i in present}

    def parts(self, predicted: Ids) -> Parts:
        """Return the right, the predicted and the gold spans of each example."""
        self.gold.check(predicted)
        spans = self._finder.find(predicted)
        places = np.zeros((self._finder.n_places, 3))
        places[spans.stop, 0] = self._is_right(spans)
        places[spans.stop, 1] = 1
        places[:, 2] = self._start >= 0
        bounds = self.gold.offsets + np.arange(len(self.gold.offsets))
        return per_example(places, bounds)

    def combine(self, sums: Sums) -> Scores:
        """Return micro F1."""
        return _f1(*sums.T)[2]

    def _is_right(self, spans: Spans) -> Bool[np.ndarray, " spans"]:
        same = self._start[spans.stop] == spans.start
        return same & (self._type[spans.stop] == spans.type)


def _f1(right: Numbers, predicted: Numbers, gold: Numbers) -> tuple[Ratios, Ratios, Ratios]:
    precision = right / np.maximum(predicted, 1)
    recall = right / np.maximum(gold, 1)
    total = precision + recall
    f1 = 2 * precision * recall / np.where(total == 0, 1.0, total)
    return precision, recall, f1
