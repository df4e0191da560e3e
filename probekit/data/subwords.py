"""The subwords of many examples, and the special tokens around each; no tokenizer is needed."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64


@dataclass(frozen=True, kw_only=True, eq=False)
class Subwords:
    """The subwords of many examples, without special tokens, one after the other.

    Attributes:
        ids: vocabulary ids.
        words: the word within its example that each subword belongs to, never decreasing.
        bounds: example i holds the subwords ``bounds[i]`` to ``bounds[i + 1]`` (excluded).
    """

    ids: Int32[np.ndarray, " subwords"]
    words: Int32[np.ndarray, " subwords"]
    bounds: Int64[np.ndarray, " bounds"]


@dataclass(frozen=True, slots=True)
class Specials:
    """The special tokens that a tokenizer puts before and after one text."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    def __len__(self) -> int:
        """Return how many subwords of every window they take."""
        return len(self.prefix) + len(self.suffix)
