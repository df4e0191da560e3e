"""Find entity spans in label ids with NumPy, exactly as seqeval's default (conlleval) reads them.

A label is a prefix (its first character) and a type (what follows the first hyphen after it; "_"
when nothing does). Whether a span starts at, or ended before, a word depends on that word's label
and the one before alone, so two tables over label pairs decide everything.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from probekit.metrics.gold import Ids, Offsets

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
        parts = [_split(name) for name in (*names, "O")]
        self.types = tuple(sorted({type_ for _, type_ in parts}))
        self._outside = len(names)
        self._type_of = np.array([self.types.index(type_) for _, type_ in parts], dtype=np.int64)
        self._starts = np.array([_starts(*before, *label) for before in parts for label in parts])
        self._ends = np.array([_ends(*before, *label) for before in parts for label in parts])
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


def _split(name: str) -> tuple[str, str]:
    return name[0], name[1:].split("-", maxsplit=1)[-1] or "_"


def _starts(before: str, type_before: str, prefix: str, type_: str) -> bool:
    changed = prefix not in "O." and type_before != type_
    return prefix in "BS" or (before, prefix) in _STARTS or changed


def _ends(before: str, type_before: str, prefix: str, type_: str) -> bool:
    changed = before not in "O." and type_before != type_
    return before in "ES" or (before, prefix) in _ENDS or changed
