"""Groups of texts of which one is a phrase of another, such as the train split of SST-2.

A text of four words or more belongs to every text that holds its words in a row; both are
normalised. Groups are the connected components of that relation, over all splits. Shorter texts
belong to their like alone, as three words in a row are found in texts that have nothing else in
common.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from probekit.features.duplicates import Wording, joined

LEAST_WORDS = 4
"""Words of a phrase that joins texts, at least."""


def phrase_groups(splits: Mapping[str, Sequence[Wording]]) -> dict[str, tuple[str, ...]]:
    """Return the group of each example, by split, called by the shortest text in it."""
    examples = [*chain.from_iterable(splits.values())]
    texts = {text for one in examples for text in one.normalised}
    held = dict(phrases(texts))
    keys = [{phrase for text in one.normalised for phrase in held[text]} for one in examples]
    owners = joined(keys).tolist()
    names: dict[int, str] = {}
    for owner, one in zip(owners, examples, strict=True):
        known = (names[owner],) if owner in names else ()
        names[owner] = min((*one.normalised, *known), key=lambda text: (len(text), text))
    found = iter(owners)
    return {split: tuple(names[next(found)] for _ in own) for split, own in splits.items()}


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
