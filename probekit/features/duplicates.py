"""Texts that occur twice: in one split, or in two, word for word or normalised.

A text is normalised by leaving out what it may be written with or without: capitals, compatibility
characters (NFKC), punctuation, invisible characters and blanks. "It's a film." and "it 's a film"
are "it s a film" then. Other symbols, such as emoji, are words of their own. A text of punctuation
alone stays. Words are joined with blanks, so that tagged words and plain texts compare.
"""

import logging
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Int64
from xxhash import xxh3_128_hexdigest

from probekit.base.kinds import SPLITS
from probekit.base.notices import human_list, info_once
from probekit.errors import OptionError
from probekit.store.entry import Entry, list_entries, read_examples
from probekit.store.tables import ExampleTable

logger = logging.getLogger(__name__)


class _Characters(dict[int, str]):
    """What stands for each character in a normalised text, found when it is first met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        replacement = f" {character} " if category.startswith("S") else character
        if category.startswith("P") or category == "Sk":  # a backtick is a modifier, Sk
            replacement = " "
        elif category == "Cf":  # a soft hyphen, a zero-width joiner
            replacement = ""
        self[code] = replacement
        return replacement


_CHARACTERS = _Characters()


def normalised(text: str) -> str:
    """Return a text normalised: its words with one blank between them."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.translate(_CHARACTERS).split()) or " ".join(text.split())


class Wording(NamedTuple):
    """The text of an example, or both texts of a pair.

    Attributes:
        exact: as it is.
        normalised: without what does not tell texts apart. Both are hashes in `hashed_wordings`.
    """

    exact: tuple[str, ...]
    normalised: tuple[str, ...]

    @classmethod
    def of(cls, words: Sequence[str], text: str | None, pair: str | None) -> Self:
        """Return the wording of an example, which has words or a text."""
        first = " ".join(words) if text is None else text
        exact = (first,) if pair is None else (first, pair)
        return cls(exact, tuple(map(normalised, exact)))


def wordings(examples: ExampleTable) -> list[Wording]:
    """Return the wording of each example of an entry."""
    read = zip(examples.column("words").to_pylist(), examples.texts, strict=True)
    return [Wording.of(words, *texts) for words, texts in read]


def hashed_wordings(entry: Entry) -> list[Wording]:
    """Return the wording of each example of an entry, hashed, so that long texts take no memory."""

    def hashed(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass")) for text in texts)

    return [
        Wording(hashed(wording.exact), hashed(wording.normalised))
        for table in _tables(entry)
        for wording in wordings(table)
    ]


def _tables(entry: Entry) -> Iterator[ExampleTable]:
    """Yield the examples of an entry, of one that has several a part after the other."""
    several = len(entry.parts) > 1
    for part in entry.parts:
        yield read_examples(part.folder, part.manifest) if several else part.examples


def count_copies(
    examples: Sequence[Wording], others: Sequence[Wording], *, again: bool = False
) -> dict[str, int]:
    """Return how many of some examples are among others, too.

    Args:
        examples: the examples that are counted.
        others: where they are looked for.
        again: both are the same examples: counted are those that occur twice or more.

    Returns:
        ``texts``, how many were counted; ``exact``, how many of them occur there word for word;
        ``normalised``, how many once all are normalised; and of pairs ``sharing``, how many have at
        least one of their texts, normalised, in common with a pair there.
    """
    least = 2 if again else 1
    exact = Counter(wording.exact for wording in others)
    whole = Counter(wording.normalised for wording in others)
    counts = {
        "texts": len(examples),
        "exact": sum(exact[wording.exact] >= least for wording in examples),
        "normalised": sum(whole[wording.normalised] >= least for wording in examples),
    }
    if any(len(wording.exact) > 1 for wording in examples):
        single = Counter(text for wording in others for text in set(wording.normalised))
        counts["sharing"] = sum(
            any(single[text] >= least for text in wording.normalised) for wording in examples
        )
    return counts


def left_of_train(train: Sequence[Wording], others: Mapping[str, Sequence[Wording]]) -> list[int]:
    """Return the places of the train examples of which no other split holds a text, normalised.

    Raises:
        OptionError: there are none.
    """
    held = {
        text for of_split in others.values() for wording in of_split for text in wording.normalised
    }
    left = [index for index, wording in enumerate(train) if held.isdisjoint(wording.normalised)]
    if not left:
        raise OptionError(
            f"--drop-duplicates leaves nothing of train: all {len(train)} texts occur in another "
            f"split ({human_list([*others])}). Leave the option out, or extract more of train."
        )
    text = "--drop-duplicates leaves out %d of %d train texts, which occur in another split (%s)."
    info_once(logger, text, len(train) - len(left), len(train), human_list([*others]))
    return left


def joined(keys: Sequence[Iterable[Hashable]]) -> Int64[np.ndarray, " examples"]:
    """Return a number for each example: those that are linked by keys in common have one.

    Args:
        keys: of each example, such as its normalised texts.
    """
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    # The keys "a b", "b" and "c" of three examples, the nodes 0 to 2, are the nodes 3 to 5. Linked
    # are 0-3, 0-4, 1-4 and 2-5, so that 0 and 1 are joined.
    count, numbers = len(keys), dict[Hashable, int]()
    pairs = [
        (example, numbers.setdefault(key, count + len(numbers)))
        for example, example_keys in enumerate(keys)
        for key in example_keys
    ]
    links = np.array(pairs, np.int64).reshape(-1, 2).T
    nodes = count + len(numbers)
    graph = coo_array((np.ones(len(pairs), bool), tuple(links)), (nodes, nodes))
    return np.asarray(connected_components(graph, directed=False)[1][:count], np.int64)


_SEEN = ("train", "dev")
"""Splits that train or choose."""


def say_duplicates(entries: Sequence[Entry], root: Path) -> None:
    """Say how many texts of each split are in train, or dev, as well.

    Args:
        entries: those that were extracted, of one model and task.
        root: the cache root, where entries of other splits may lie.
    """
    by_split = {entry.manifest.split: entry for entry in [*_beside(entries, root), *entries]}
    names = sorted(by_split, key=[*SPLITS, *by_split].index)
    if len(names) == 1:
        return  # nothing to compare its texts with
    at_once = [name for name in names if len(by_split[name].parts) == 1]
    read = {name: wordings(by_split[name].examples) for name in at_once}
    for index, split in enumerate(names):
        for other in [name for name in names[:index] if name in _SEEN]:
            if split not in read and other not in read:
                logger.info("%s: too large to be compared with the texts of %s.", split, other)
                continue
            texts = read.get(split) or _near(by_split[split], read[other])
            counts = count_copies(texts, read.get(other) or _near(by_split[other], texts))
            if split not in read:
                counts["texts"] = by_split[split].manifest.counts["examples"]
            logger.info("%s", duplicates_text(split, other, counts))


def _near(entry: Entry, texts: Sequence[Wording]) -> list[Wording]:
    """Return the texts of an entry that are much like some others, read a part after the other."""
    near = {text for wording in texts for text in wording.normalised}
    every = (wording for table in _tables(entry) for wording in wordings(table))
    return [wording for wording in every if not near.isdisjoint(wording.normalised)]


def _beside(entries: Sequence[Entry], root: Path) -> list[Entry]:
    """Return the entries of other splits that are there, and alike save for their text.

    Where several of a split are, it is left out.
    """
    if not entries:
        return []
    extracted, first = {entry.manifest.split for entry in entries}, entries[0]
    request = first.manifest.request
    alike: dict[str, list[Path]] = {}
    for folder in list_entries(root):
        here = folder.complete and folder.path.parent == first.path.parent
        if (
            here
            and folder.split not in extracted
            and {**folder.asked, "text": request["text"]} == request
        ):
            alike.setdefault(folder.split, []).append(folder.path)
    return [Entry.open(paths[0]) for paths in alike.values() if len(paths) == 1]


def duplicates_text(split: str, other: str, counts: Mapping[str, int]) -> str:
    """Return a count of `count_copies` in words."""
    total, unit = counts["texts"], "pairs" if "sharing" in counts else "texts"
    share = {name: f"({100 * count / max(total, 1):.1f} %)" for name, count in counts.items()}
    text = f"none of {total:,} {unit} is in {other}"
    if copies := counts["normalised"]:
        whole = f"{copies:,} of {total:,} {unit} {share['normalised']}"
        text = f"{whole} are in {other} too, {counts['exact']:,} of them word for word"
    if shared := counts.get("sharing"):
        text += f"; {shared:,} {share['sharing']} share a text with one there"
    return f"{split}: {text}."
