"""Entity tags: what a BIO tag is, and IOB1 turned into BIO.

In BIO (IOB2) every entity opens with B-. In IOB1, the scheme of the CoNLL-2003 files, it opens
with I-, and B- only divides two entities of one type that touch.
"""

import re
from collections.abc import Sequence

_TAG = re.compile(r"O|[BI]-.+", re.DOTALL)


def is_tag(tag: str) -> bool:
    """Return whether ``tag`` is O, B-TYPE or I-TYPE."""
    return _TAG.fullmatch(tag) is not None


def opens_with_inside(tags: Sequence[str]) -> int:
    """Return how many entities of a sentence open with I-, which BIO does not allow."""
    pairs = zip(["O", *tags], tags, strict=False)
    return sum(tag[:2] == "I-" and previous[2:] != tag[2:] for previous, tag in pairs)


def iob1_to_bio(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of one sentence with every entity opened by B-.

    An I-TYPE that follows neither B-TYPE nor I-TYPE of the same type opens an entity and becomes
    B-TYPE; all other tags stay. BIO tags come back unchanged.
    """
    pairs = zip(["O", *tags], tags, strict=False)
    return tuple(
        f"B-{tag[2:]}" if tag[:2] == "I-" and previous[2:] != tag[2:] else tag
        for previous, tag in pairs
    )
