"""Cut a text that is longer than the model's limit into windows, at word boundaries."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

OVERLONG = ("stride", "truncate", "error")


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Where the windows of one text lie.

    Attributes:
        spans: (start, stop) of each window, counted in the text's subwords.
        truncated_words: words of which no window holds every subword.
    """

    spans: tuple[tuple[int, int], ...]
    truncated_words: int


def truncate(bounds: Int64[np.ndarray, " bounds"], room: int) -> WindowPlan:
    """Keep the whole words that fit into one window (or the start of a first word that does not).

    Args:
        bounds: word k holds the subwords ``bounds[k]`` to ``bounds[k + 1]`` (excluded).
        room: most subwords of a window, at least 1.
    """
    fitting = int(np.searchsorted(bounds, room, side="right")) - 1
    stop = int(bounds[fitting]) if fitting else room
    return WindowPlan(((0, stop),), len(bounds) - 1 - fitting)


def stride(bounds: Int64[np.ndarray, " bounds"], room: int) -> WindowPlan:
    """Cover a text with windows that overlap by whole words, up to a quarter of ``room``.

    No word is split, except one that exceeds a whole window: it gets a window of its own, which
    holds its first ``room`` subwords.

    Args:
        bounds: word k holds the subwords ``bounds[k]`` to ``bounds[k + 1]`` (excluded).
        room: most subwords of a window, at least 1.
    """
    last = len(bounds) - 1
    spans, truncated, first = [], 0, 0
    while True:
        start = int(bounds[first])
        stop = int(np.searchsorted(bounds, start + room, side="right")) - 1
        if stop == first:  # this word alone exceeds the window
            spans.append((start, start + room))
            truncated += 1
            stop = first + 1
        else:
            spans.append((start, int(bounds[stop])))
        if stop == last:
            return WindowPlan(tuple(spans), truncated)
        first = _next_start(bounds, stop, room)


def _next_start(bounds: Int64[np.ndarray, " bounds"], word: int, room: int) -> int:
    """Return the first word of a window that overlaps the words before ``word`` and holds it.

    The overlap shrinks where ``word`` would not fit behind it, down to none for a word as long
    as the window.
    """
    overlap = min(room // 4, max(0, room - int(bounds[word + 1] - bounds[word])))
    return int(np.searchsorted(bounds, bounds[word] - overlap, side="left"))
