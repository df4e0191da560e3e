"""Which sentences belong together, so that no cut divides them; read as labels are.

Where nobody names a column, their documents are known as well: no cut minds these, but intervals
do.

Groups of texts of which one is a phrase of another, such as the train split of SST-2.

A text of four words or more belongs to every text that holds its words in a row; both are
normalised. Groups are the connected components of that relation, over all splits. Shorter texts
belong to their like alone, as three words in a row are found in texts that have nothing else in
common.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from textwrap import shorten

import numpy as np
from jaxtyping import Int64

from probekit.base.notices import info_once, warn_once
from probekit.errors import DataError
from probekit.features.duplicates import Wording, joined, wordings
from probekit.features.location import Location
from probekit.store import Entry
from probekit.store.labels import LabelSet, groups_for, labels_for, read_newest
from probekit.tasks import Split, Task, is_own
from probekit.tasks.sentences import DOCUMENT
from probekit.tasks.split_parts import SplitParts, read_split

logger = logging.getLogger(__name__)

LEAST_WORDS = 4
"""Words of a phrase that joins texts, at least."""


def phrase_groups(splits: Mapping[str, Sequence[Wording]]) -> dict[str, tuple[str, ...]]:
    """Return the group of each example, by split, called by the shortest text in it."""
    examples = [*chain.from_iterable(splits.values())]
    texts = {text for wording in examples for text in wording.normalised}
    held = dict(phrases(texts))
    keys = [
        {phrase for text in wording.normalised for phrase in held[text]} for wording in examples
    ]
    owners = joined(keys).tolist()
    names: dict[int, str] = {}
    for owner, wording in zip(owners, examples, strict=True):
        known = (names[owner],) if owner in names else ()
        names[owner] = min((*wording.normalised, *known), key=lambda text: (len(text), text))
    numbers = iter(owners)
    return {
        split: tuple(names[next(numbers)] for _ in of_split) for split, of_split in splits.items()
    }


def phrases(texts: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each text with those of the texts that it holds: itself, and phrases in it.

    Args:
        texts: normalised ones, each once.
    """
    # Of "one of the best", "one of the best films" and "it is one of the best films" the first four
    # words of the first two are alike, so `lengths` has 4 and 5 for them. These words are met once
    # more from the third word of the last text on, where runs of 4 and of 5 words are looked up.
    lengths: dict[str, set[int]] = defaultdict(set)
    for text in texts:
        words = text.split(" ")
        if len(words) >= LEAST_WORDS:
            lengths[" ".join(words[:LEAST_WORDS])].add(len(words))
    for text in texts:
        words, held = text.split(" "), [text]
        for start in range(len(words) - LEAST_WORDS + 1):
            for length in lengths.get(" ".join(words[start : start + LEAST_WORDS]), ()):
                run = " ".join(words[start : start + length])
                held += [run] * (run in texts)
        yield text, held


_SHOWN = 60  # characters of a group in a message


@dataclass(frozen=True)
class SentenceGroups:
    """What each example of an entry shares with others, which intervals resample together.

    Attributes:
        column: what it is: the column that the user named, or ``document``.
        names: the group of each example, in the order of the entry.
    """

    column: str
    names: Sequence[str] = field(repr=False)


TEXTS = ("text", "text_pair")
"""Columns that the entry holds itself: pairs may have one of their texts in common."""

PHRASES = "phrases"
"""What stands in place of a column for groups of texts that are phrases of one another."""


def split_groups(
    entries: Mapping[str, Entry], task: Task, column: str, location: Location
) -> dict[str, tuple[str, ...]]:
    """Return the group of each example by split; say where splits have some in common.

    Args:
        entries: of the splits.
        task: their task.
        column: the column, or `PHRASES`.
        location: where labels are read.

    Raises:
        DataError, UnknownNameError, MissingFileError, HubError: as `load_groups`.
    """
    if column == PHRASES:
        groups = phrase_groups({name: wordings(entry.examples) for name, entry in entries.items()})
    else:
        groups = {
            split: load_groups(entry, task, column, location) for split, entry in entries.items()
        }
    for first, other in combinations(groups, 2):
        common = set(groups[first]) & set(groups[other])
        if common:  # which no cut of a run can mend
            warn_once(
                logger,
                "%s and %s have %d of %d groups (%s) in common, such as %s.",
                *(first, other, len(common), len(set(groups[other])), column),
                shorten(min(common), _SHOWN, placeholder="..."),
            )
    return groups


def number_groups(
    names: Sequence[str] | None, texts: Sequence[Wording] | None = None
) -> Int64[np.ndarray, " examples"] | None:
    """Return the number of each example's group; None where nothing makes groups.

    Args:
        names: of the groups.
        texts: those of the examples, where equal ones are to be in one group as well.
    """
    if texts is not None:
        named = [()] * len(texts) if names is None else [((name,),) for name in names]
        return joined(
            [(*wording.normalised, *group) for wording, group in zip(texts, named, strict=True)]
        )
    ranks = {name: rank for rank, name in enumerate(sorted(set(names or ())))}
    return None if names is None else np.array([ranks[name] for name in names], np.int64)


def group_sizes(groups: Int64[np.ndarray, " examples"]) -> dict[str, int]:
    """Return how many groups some examples are of, and how large these are.

    Args:
        groups: the number of each example's group.

    Returns:
        ``groups``, their number; ``largest_group``, the examples of the largest; ``in_groups``, the
        examples that share theirs with another one.
    """
    sizes = np.unique(groups, return_counts=True)[1]
    together = sizes[sizes > 1].sum()
    return {
        "groups": len(sizes),
        "largest_group": int(sizes.max(initial=0)),
        "in_groups": int(together),
    }


def say_sizes(groups: Int64[np.ndarray, " examples"] | None, column: str) -> None:
    """Say how large the groups of train are, if there are any.

    Args:
        groups: as for `group_sizes`.
        column: where they are from.
    """
    if groups is None:
        return
    sizes = group_sizes(groups)
    info_once(
        logger,
        "%d train sentences are in %d groups (%s); the largest has %d, and %.1f %% share one.",
        *(len(groups), sizes["groups"], column, sizes["largest_group"]),
        100 * sizes["in_groups"] / max(len(groups), 1),
    )


def load_groups(entry: Entry, task: Task, column: str, location: Location) -> tuple[str, ...]:
    """Return the group of each example of an entry, in its order.

    ``text`` and ``text_pair`` are the entry's own. Other columns are read afresh from ``--data`` or
    the user's own files; else they are what is stored beside the entry: groups, or a label column
    of texts; else they are read from where the text came from.

    Args:
        entry: the entry.
        task: its task.
        column: the column.
        location: where labels are read.

    Raises:
        DataError: the split has no such groups, or an example is without one.
        UnknownNameError: there is no such column.
        MissingFileError, HubError: the text is not at hand.
    """
    split, where = entry.manifest.split, f"{entry.manifest.task} {entry.manifest.split}"
    fresh = location.data is not None or (is_own(task) and split in task.splits)
    files = [] if fresh else groups_for(entry, column) or labels_for(entry, column)
    stored = read_newest(entry, files)
    if column in TEXTS and entry.examples.has(column):
        shared = [texts[TEXTS.index(column)] or "" for texts in entry.examples.texts]
        groups = dict(zip(entry.examples.ids, shared, strict=True))
    elif stored is not None:
        groups = _by_label(stored, where)
    else:
        data = None if location.data is None else Path(location.data)
        text = read_split(task, split, data) if len(entry.parts) > 1 else None
        if isinstance(text, SplitParts):
            groups = text.groups(column)
        else:
            groups = task.groups(split, column, data)
    missing = [name for name in entry.examples.ids if not groups.get(name)]
    if missing:
        raise DataError(
            f"{where}: no group in column {column!r} for example {missing[0]!r} ({len(missing)} of "
            f"{len(entry.examples)} have none); give the files of the same split, --data DIR."
        )
    return tuple(groups[name] for name in entry.examples.ids)


def load_documents(entry: Entry, split: Split | None) -> SentenceGroups | None:
    """Return the document of each example of an entry; None where it is not known of all.

    Args:
        entry: the entry.
        split: as it was read afresh; what is stored counts where that is None, or knows none.
    """
    if split is not None and split.documents:
        ids = (example.id for example in split.examples)
        documents = dict(zip(ids, split.documents, strict=True))
    else:
        stored = read_newest(entry, groups_for(entry, DOCUMENT))
        documents = {} if stored is None else _by_label(stored, entry.manifest.split)
    # an example that is read several times, under other masks, is ID#PASS
    names = [
        documents.get(name) or documents.get(name.rpartition("#")[0], "")
        for name in entry.examples.ids
    ]
    return SentenceGroups(DOCUMENT, names) if all(names) else None


def _by_label(labels: LabelSet, where: str) -> dict[str, str]:
    """Return the label of each text as its group.

    Raises:
        DataError: they label words.
    """
    if any(len(values) != 1 for values in labels.values):
        raise DataError(
            f"{where}: column {labels.file.column!r} labels words, but groups consist of whole "
            "sentences; give another --group."
        )
    return {name: values[0] for name, values in zip(labels.ids, labels.values, strict=True)}
