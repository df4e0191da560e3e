"""What records say of texts that occur twice, in the words of the lines below a table."""

from collections.abc import Sequence

from probekit.results.record import Record

SAID_FROM = 0.01
"""Share of a split from which a line says it: fewer texts move an accuracy by under a point."""

_DROPPED = "without duplicates"
"""What the protocol says of runs with ``--drop-duplicates``."""

_WORDS = {
    ("texts", False): "are in train too; leave them out with --drop-duplicates",
    ("pairs", False): "share a text with train; leave its pairs out with --drop-duplicates",
    ("texts", True): "occur twice or more; --drop-duplicates keeps equal ones together",
    ("pairs", True): "share a text with another one; --drop-duplicates keeps these together",
}
"""What is said of texts or pairs; True: of those of train, where a part of it chose."""


def copied_texts(records: Sequence[Record]) -> list[str]:
    """Return how much of what was scored was trained on as well; nothing where it is little.

    Texts were normalised before they were counted; a pair counts by each of its texts.

    Args:
        records: all that a table is made of.
    """
    shares: dict[tuple[tuple[str, bool], str], list[float]] = {}
    several = len({record.task for record in records}) > 1
    for record in [one for one in records if _DROPPED not in one.protocol]:
        for split, among in record.duplicates.items():
            counts = among.get("train", {})
            if counts.get("texts"):
                unit = "pairs" if "sharing" in counts else "texts"
                of = f"{record.task} {split}" if several else split
                share = counts.get("sharing", counts["normalised"]) / counts["texts"]
                key = (unit, split == "train"), f"{of} {unit}"
                shares.setdefault(key, []).append(share)
    said: dict[tuple[str, bool], list[str]] = {}
    for (kind, of), found in shares.items():
        if max(found) >= SAID_FROM:
            said.setdefault(kind, []).append(f"{_range_text(found)} % of {of}")
    return [f"{_listed(parts)} {_WORDS[kind]}" for kind, parts in said.items()]


def _range_text(shares: Sequence[float]) -> str:
    low, high = f"{100 * min(shares):.1f}", f"{100 * max(shares):.1f}"
    return high if low == high else f"{low} to {high}"


def _listed(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
