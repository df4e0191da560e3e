"""Kinds of labels, arrays of an entry, and names of splits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from probekit.base.layers import POINTS, RESID_POST, array_at

KindName = Literal[
    "tagging", "span", "sentence", "multilabel", "pair", "regression", "language-modelling"
]

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
        point: where in a block the states are taken, one of ``POINTS``.
    """

    name: str
    per: Literal["word", "prediction", "text", "subword"]
    averages: bool = False
    last_only: bool = False
    end: Literal["first", "last"] | None = None
    point: str = RESID_POST


_OF_THE_STREAM = (
    Array(name="words", per="word"),
    Array(name="predicted", per="prediction"),
    Array(name="cls", per="text", end="first"),
    Array(name="mean", per="text", averages=True),
    Array(name="last", per="text", end="last"),
    Array(name="tokens", per="subword", last_only=True),
)


def stream_array(name: str) -> str:
    """Return the array of the residual stream that has the rows of an array at any point."""
    return name.partition(".")[0]


ARRAYS: Mapping[str, Array] = {
    name: replace(array, name=name, point=point)
    for point in POINTS
    for array in _OF_THE_STREAM
    for name in (array_at(array.name, point),)
}
"""By name, in the order of an entry: those of every chosen layer first; the first says which."""

STREAM_ARRAYS = tuple(array.name for array in _OF_THE_STREAM)
"""The arrays of the residual stream; the others are the same rows at other points."""

POOLED = tuple(name for name in STREAM_ARRAYS if ARRAYS[name].per == "text")
"""The arrays with one row per text: first token, mean of all tokens, last token."""

TOKENS = "tokens"
"""The array with a row per token."""

LAST_ONLY = tuple(name for name in STREAM_ARRAYS if ARRAYS[name].last_only)
"""The arrays of the last layer alone, whichever layers the others have."""


def keep_and_points(names: Iterable[str]) -> tuple[str, str | None]:
    """Return ``--keep`` and ``--points`` of what an entry keeps; None of the stream alone.

    Args:
        names: arrays, and the output head.
    """
    names = list(names)
    keep = dict.fromkeys(map(stream_array, names))
    asked = {ARRAYS[name].point for name in names if name in ARRAYS}
    points = [point for point in POINTS if point in asked]
    return ",".join(keep), None if points in ([], [RESID_POST]) else ",".join(points)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the labels of a column are, and what follows from it.

    Attributes:
        name: its name.
        per: what has a label.
        own_rows: the array that holds its rows; None where a run chooses one of ``POOLED``.
        targets: what a label is: one of some classes, a set of some labels, a number, or a subword
            of the vocabulary.
        texts: how many texts an example may have.
        needed: what an entry keeps for it unless told otherwise.
        possible: the arrays that a text of the kind can have, besides those of its subwords.
        decoder: the decoder unless told otherwise.
        metric: name of the metric of the user's own data; None is that of the tags that are found.
    """

    name: KindName
    per: Literal["word", "span", "prediction", "text"]
    own_rows: str | None = None
    targets: Literal["classes", "sets", "numbers", "vocabulary"]
    texts: tuple[int, ...] = (1,)
    needed: tuple[str, ...] = POOLED
    possible: tuple[str, ...] = POOLED
    decoder: str = "linear"
    metric: str | None = "accuracy"

    @property
    def of_words(self) -> bool:
        """Whether what has a label is words: each by itself, or spans of them."""
        return self.per in ("word", "span")


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
        Kind(
            name="span",
            per="span",
            own_rows="words",
            targets="classes",
            needed=("words",),
            possible=("words", *POOLED),
        ),
        Kind(name="sentence", per="text", targets="classes"),
        Kind(
            name="multilabel",
            per="text",
            targets="sets",
            decoder="one-vs-rest",
            metric="macro-f1",
        ),
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
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "development", "valid", "validation", "val", "testa"), "dev"),
    **dict.fromkeys(("test", "testing", "testb"), "test"),
}
"""What the user's own files may call them, in small letters."""
