"""What intervals resample: the sentences of a split, or groups of them, such as documents.

Sentences of one document resemble each other, so that a draw of single sentences varies less than a
draw of documents does. Whole groups are drawn in their place (the cluster bootstrap: Davison and
Hinkley 1997, section 3.8), and left out in their place by the jackknife.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from jaxtyping import Float64, Int64

from probekit.errors import RecordError
from probekit.metrics.contract import Counts
from probekit.results.predictions import Predicted
from probekit.results.summaries.interval import CONFIDENCE
from probekit.results.summaries.wording import range_text

FEW = 10
"""Groups below which an interval over them is rough: their spread is hardly known."""

_AT_ONCE = 1 << 21  # numbers of a block of counts


@dataclass(frozen=True, slots=True)
class Drawn:
    """How many of what are resampled.

    Attributes:
        n: sentences or groups of the split.
        noun: what they are, in words.
        remark: what must be known of an interval over them.
    """

    n: int
    noun: str = "sentences"
    remark: str = ""

    @property
    def text(self) -> str:
        """What an interval is over, such as ``231 documents``."""
        return drawn_text([self])


def drawn_text(found: Iterable[Drawn]) -> str:
    """Return what several intervals are over: ``277 to 872 sentences or 231 documents``."""
    counts: dict[tuple[str, str], list[int]] = {}
    for one in found:
        counts.setdefault((one.noun, one.remark), []).append(one.n)
    parts = (f"{range_text(n)} {noun}, {remark}" for (noun, remark), n in counts.items())
    return " or ".join(part.removesuffix(", ") for part in parts)


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a split's sentences; without numbers every sentence is one.

    Attributes:
        n_sentences: sentences of the split.
        numbers: the group of each sentence, numbered in the order in which they come first.
        grouped_by: what the groups are: ``document``, or the column that the user named.
    """

    n_sentences: int
    numbers: Int64[np.ndarray, " sentences"] | None = field(default=None, repr=False)
    grouped_by: str = ""

    @classmethod
    def of(cls, found: Predicted) -> Self:
        """Return the groups of the sentences of a split."""
        place = {name: n for n, name in enumerate(dict.fromkeys(found.groups))}
        numbers = np.array([place[name] for name in found.groups], np.int64)
        return cls(len(found.ids), numbers if place else None, found.grouped_by)

    @property
    def whole(self) -> Int64[np.ndarray, " sentences"] | None:
        """The group of each sentence, where groups are resampled; None where sentences are.

        Sentences that are all of one group say nothing of what another one would be like: a file
        whose only mark of documents stands at its top divides nothing.
        """
        return None if self.numbers is None or not self.numbers.any() else self.numbers

    @property
    def drawn(self) -> Drawn:
        """How many of what are resampled."""
        if self.whole is None:
            one = f"all of one {self.grouped_by}" if self.numbers is not None else ""
            return Drawn(self.n_sentences, remark=one)
        n = int(self.whole.max()) + 1
        noun = "documents" if self.grouped_by == "document" else f"groups by {self.grouped_by}"
        return Drawn(n, noun, "so few that intervals are rough" * (n < FEW))

    @property
    def stretch(self) -> float:
        """What deviations of bootstrap samples are multiplied with.

        Samples of n groups vary ``sqrt((n - 1) / n)`` times as much as they should, and an interval
        needs Student's t. With thousands of sentences neither matters; plain percentiles of 20
        documents cover 93 % (Hesterberg 2015, whose expanded percentiles these are to the first
        order).
        """
        if self.whole is None:
            return 1.0
        from scipy.special import ndtri, stdtrit  # slow to import

        n, upper = self.drawn.n, (1 + CONFIDENCE) / 2
        return math.sqrt(n / (n - 1)) * float(stdtrit(n - 1, upper) / ndtri(upper))

    def counts(self, of_groups: Float64[np.ndarray, "samples groups"]) -> Counts:
        """Return how often each sentence occurs, given how often its group does."""
        return of_groups if self.whole is None else of_groups[:, self.whole]

    def without_each(self) -> Iterator[Counts]:
        """Yield samples that lack one group each, a block at a time."""
        n, at_once = self.drawn.n, max(1, _AT_ONCE // self.n_sentences)
        for first in range(0, n, at_once):
            # of three groups, the second and third in a block: [[1, 0, 1], [1, 1, 0]]
            yield self.counts(1.0 - np.eye(min(at_once, n - first), n, k=first))


def shared_groups(found: Iterable[tuple[str, Groups]]) -> Groups:
    """Return the groups of some sentences, given those that every run knows: all alike, or none.

    Args:
        found: whose they are, for messages, and the groups.

    Raises:
        RecordError: two runs divide the sentences in other ways.
    """
    (first, known), *others = found
    for origin, one in others:
        if known.numbers is None:
            first, known = origin, one
        elif one.numbers is not None and not np.array_equal(one.numbers, known.numbers):
            raise RecordError(
                f"{first} knows other groups of the sentences ({known.grouped_by}) than {origin} "
                f"({one.grouped_by}), and whole groups are resampled. Delete the predictions of "
                "both, and train again with --predictions and the same --group."
            )
    return known
