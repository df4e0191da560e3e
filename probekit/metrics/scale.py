"""How the scores of a metric are shown: in percent or raw, and which way is better."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scale:
    """How scores are shown.

    Attributes:
        percent: whether they are printed times 100.
        greater_is_better: whether the best is the largest.
        lowest: the lowest that a score can be, before it is printed.
    """

    percent: bool = True
    greater_is_better: bool = True
    lowest: float = 0.0

    @property
    def factor(self) -> float:
        """What a score is multiplied with before it is printed."""
        return 100.0 if self.percent else 1.0

    @property
    def sign(self) -> int:
        """What a score is multiplied with so that the best is the largest."""
        return 1 if self.greater_is_better else -1

    def text(self, score: float) -> str:
        """Return a score as a message says it."""
        return f"{score * self.factor:.1f}"

    def clip(self, low: float, high: float) -> tuple[float, float]:
        """Cut an interval of printed scores to what such scores can be.

        Few seeds make an interval wide: a percentage ends at 100, and all scores at ``lowest``,
        unless the middle of the interval is below (a correlation of a newer version).
        """
        if not self.percent:
            return max(low, self.lowest), high
        floor = self.lowest * self.factor if low + high >= 0 else -100.0
        return max(low, floor), min(high, 100.0)

    def best(self, scores: Mapping[T, float]) -> T:
        """Return the key of the best score; of equal ones the first."""
        return max(scores, key=lambda key: self.sign * scores[key])

    def is_wide(self, low: float, high: float) -> bool:
        """Say whether scores from low to high need a logarithmic axis: raw, over a factor of 20."""
        return not self.percent and low > 0 and math.log(high / low) > math.log(20)
