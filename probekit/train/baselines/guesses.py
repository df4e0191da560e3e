"""Baselines without features: the most frequent answer, and the most frequent one per word."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Int64

from probekit.base.kinds import KINDS
from probekit.features import FeatureView

Guess = Callable[[FeatureView], np.ndarray]
"""From a view to what the task's metric consumes: a class, value or loss per row."""


def majority(train: FeatureView) -> Guess:
    """Guess the same for every row.

    That is the most frequent class of train (the first by name among equals), the mean value for a
    regression, and for language modelling the frequencies of the vocabulary in train, with one
    added to each.

    Args:
        train: the rows that a probe would be trained on.
    """
    targets = KINDS[train.kind].targets
    if targets == "numbers":
        mean = float(train.targets.mean())
        return lambda view: np.full(len(view), mean)
    if targets == "vocabulary":
        counts = np.bincount(train.targets, minlength=train.n_outputs) + 1.0
        losses = -np.log(counts / counts.sum())
        return lambda view: losses[view.targets]
    common = int(np.bincount(train.targets, minlength=len(train.labels)).argmax())
    return lambda view: np.full(len(view), common, np.int64)


def memorised(train: FeatureView) -> Guess:
    """Guess for every word the class that it had most often in train, as it is written.

    A word that train does not have gets the most frequent class of train (which is what makes the
    majority's span F1 zero and this one's not).

    Args:
        train: words and their classes.
    """
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for word, target in zip(words_of(train), train.targets.tolist(), strict=True):
        counts[word][target] += 1
    common = int(np.bincount(train.targets, minlength=len(train.labels)).argmax())
    best = {word: _most(found) for word, found in counts.items()}
    return lambda view: _look_up(words_of(view), best, common)


def words_of(view: FeatureView) -> list[str]:
    """Return the word of each row of a view of words."""
    examples = view.entry.examples
    words = [examples.words(int(position)) for position in view.positions]
    starts = np.repeat(examples.row_start[view.positions], view.lengths)
    owners = np.repeat(np.arange(view.n_examples), view.lengths)
    places = (view.rows - starts).tolist()
    return [words[owner][place] for owner, place in zip(owners.tolist(), places, strict=True)]


def _most(counts: Mapping[int, int]) -> int:
    """Return the most frequent class, the smallest of equals."""
    return min(counts, key=lambda target: (-counts[target], target))


def _look_up(
    words: Sequence[str], best: Mapping[str, int], common: int
) -> Int64[np.ndarray, " rows"]:
    return np.fromiter((best.get(word, common) for word in words), np.int64, len(words))
