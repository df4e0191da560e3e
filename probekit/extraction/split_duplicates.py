"""What the splits of a task have in common, told when they are extracted."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from probekit.base.kinds import SPLITS
from probekit.features.duplicates import count_copies, wordings
from probekit.store.entry import Entry, list_entries

logger = logging.getLogger(__name__)

_SEEN = ("train", "dev")
"""Splits that train or choose."""


def say_duplicates(entries: Sequence[Entry], root: Path) -> None:
    """Say how many texts of each split are in train, or dev, as well.

    Args:
        entries: those that were extracted, of one model and task.
        root: the cache root, where entries of other splits may lie.
    """
    found = {one.manifest.split: one for one in [*_beside(entries, root), *entries]}
    names = sorted(found, key=[*SPLITS, *found].index)
    texts = {name: wordings(found[name].examples) for name in names}
    for place, split in enumerate(names):
        for other in [name for name in names[:place] if name in _SEEN]:
            counts = count_copies(texts[split], texts[other])
            logger.info("%s", duplicates_text(split, other, counts))


def _beside(entries: Sequence[Entry], root: Path) -> list[Entry]:
    """Return the entries of other splits that are there, and alike save for their text.

    Where several of a split are, it is left out.
    """
    if not entries:
        return []
    own, first = {entry.manifest.split for entry in entries}, entries[0]
    request = first.manifest.request
    alike: dict[str, list[Path]] = {}
    for folder in list_entries(root):
        here = folder.complete and folder.path.parent == first.path.parent
        if (
            here
            and folder.split not in own
            and {**folder.asked, "text": request["text"]} == request
        ):
            alike.setdefault(folder.split, []).append(folder.path)
    return [Entry.open(paths[0]) for paths in alike.values() if len(paths) == 1]


def duplicates_text(split: str, other: str, counts: Mapping[str, int]) -> str:
    """Return a count of `count_copies` in words."""
    total, unit = counts["texts"], "pairs" if "sharing" in counts else "texts"
    share = {name: f"({100 * count / max(total, 1):.1f} %)" for name, count in counts.items()}
    text = f"none of {total:,} {unit} is in {other}"
    if found := counts["normalised"]:
        whole = f"{found:,} of {total:,} {unit} {share['normalised']}"
        text = f"{whole} are in {other} too, {counts['exact']:,} of them word for word"
    if shared := counts.get("sharing"):
        text += f"; {shared:,} {share['sharing']} share a text with one there"
    return f"{split}: {text}."
