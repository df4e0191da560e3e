"""Two tables that everything asks: what label columns label, and which arrays an entry can keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

KindName = Literal["tagging", "sentence", "pair", "regression", "language-modelling"]
OUTPUT_HEAD = "output-head"
"""What an entry may keep besides arrays: the model's own output head."""


@dataclass(frozen=True, kw_only=True)
class Array:
    """An array that an entry can keep.

    Attributes:
        name: its name.
        per: what has a row in it.
        averages: whether a row is a mean of rows, added up over the windows of its text.
        last_only: whether it holds the last layer alone, not every chosen one.
        end: the end of its text that a row is the token of; None for other rows.
    """

    name: str
    per: Literal["word", "prediction", "text", "subword"]
    averages: bool = False
    last_only: bool = False
    end: Literal["first", "last"] | None = None


ARRAYS: Mapping[str, Array] = {
    array.name: array
    for array in (
        Array(name="words", per="word"),
        Array(name="predicted", per="prediction"),
        Array(name="cls", per="text", end="first"),
        Array(name="mean", per="text", averages=True),
        Array(name="last", per="text", end="last"),
        Array(name="tokens", per="subword", last_only=True),
    )
}
"""By name, in the order of an entry: those of every chosen layer first; the first says which."""

POOLED = tuple(name for name, array in ARRAYS.items() if array.per == "text")
"""The arrays with one row per text: first token, mean of all tokens, last token."""

LAST_ONLY = tuple(name for name, array in ARRAYS.items() if array.last_only)
"""The arrays of the last layer alone, whichever layers the others have."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the labels of a column are, and what follows from it.

    Attributes:
        name: its name.
        per: what has a label.
        own_rows: the array that holds its rows; None where a run chooses one of ``POOLED``.
        targets: what a label is: one of some classes, a number, or a subword of the vocabulary.
        texts: how many texts an example may have.
        needed: what an entry keeps for it unless told otherwise.
        possible: the arrays that a text of the kind can have, besides those of its subwords.
        decoder: the decoder unless told otherwise.
        metric: name of the metric of the user's own data; None is that of the tags that are found.
    """

    name: KindName
    per: Literal["word", "prediction", "text"]
    own_rows: str | None = None
    targets: Literal["classes", "numbers", "vocabulary"]
    texts: tuple[int, ...] = (1,)
    needed: tuple[str, ...] = POOLED
    possible: tuple[str, ...] = POOLED
    decoder: str = "linear"
    metric: str | None = "accuracy"


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="tagging",
            per="word",
            own_rows="words",
            targets="classes",
            needed=("words", "tokens"),
            possible=("words", *POOLED),
            metric=None,
        ),
        Kind(name="sentence", per="text", targets="classes"),
        Kind(name="pair", per="text", targets="classes", texts=(2,)),
        Kind(
            name="regression",
            per="text",
            targets="numbers",
            texts=(1, 2),
            decoder="regression",
            metric="spearman",
        ),
        Kind(
            name="language-modelling",
            per="prediction",
            own_rows="predicted",
            targets="vocabulary",
            needed=("predicted", OUTPUT_HEAD),
            possible=("predicted",),
            decoder="vocabulary",
            metric="perplexity",
        ),
    )
}
"""By name."""

SPLITS = ("train", "dev", "test")

HUB_SPLITS: Mapping[str, str] = {"train": "train", "dev": "validation", "test": "test"}
"""What data sets of the Hub usually call them."""

EXAMPLES_IN_MEMORY = "examples in memory"
"""Where a text came from, as manifests name it, that no file holds."""

ALIASES: Mapping[str, str] = {
    "train": "train",
    "dev": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "testa": "dev",
    "test": "test",
    "testb": "test",
}
"""What the user's own files may call them, in small letters."""
