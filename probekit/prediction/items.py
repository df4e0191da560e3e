"""What a saved head is given to label: sentences in words, running texts, or pairs of texts."""

from collections.abc import Sequence

from probekit.errors import DataError
from probekit.tasks import Example

Item = str | Sequence[str]


def as_examples(texts: Sequence[Item], kind: str) -> list[Example]:
    """Return texts as examples of the kind that the head was trained on.

    Args:
        texts: as ``predict`` takes them.
        kind: ``tagging`` for texts in words, ``sentence``, ``pair``, or ``regression`` (of one
            text or of two).

    Raises:
        DataError: a text is no pair where one is expected, or a list of words where a running
            text is.
    """
    return [_example(f"text-{n}", text, kind) for n, text in enumerate(texts, 1)]


def _example(name: str, item: Item, kind: str) -> Example:
    if kind == "tagging" or (kind == "sentence" and not isinstance(item, str)):
        words = [word for word in item.split(" ") if word] if isinstance(item, str) else item
        return Example(id=name, words=tuple(words))
    if isinstance(item, str):
        if kind == "pair":
            raise DataError(f"{name}: this head labels pairs of texts; found one text, {item!r}.")
        return Example(id=name, text=item)
    if len(item) != 2:
        raise DataError(f"{name}: expected a pair of texts; found {len(item)} texts.")
    return Example(id=name, text=item[0], text_pair=item[1])


def read_items(lines: Sequence[str], kind: str) -> list[Item]:
    """Turn lines of text into what ``predict`` takes; blank lines are left out.

    Args:
        lines: one text per line; the two texts of a pair lie apart by a TAB.
        kind: of the head: tagging splits words at single spaces.

    Raises:
        DataError: there is no text at all, or a line of a pair has no TAB or several.
    """
    if kind == "tagging":
        return list(read_sentences(lines))
    texts = [line.strip("\r\n") for line in lines if line.strip()]
    if not texts:
        raise DataError("there is no text to label; give one per line.")
    if kind == "sentence":
        return list(texts)
    pairs = [tuple(text.split("\t")) for text in texts]
    for number, pair in enumerate(pairs, start=1):
        if len(pair) != 2 and (kind == "pair" or len(pair) > 2):
            raise DataError(
                f"text {number}: expected two texts with one TAB between them; found {len(pair)}."
            )
    return [pair if len(pair) == 2 else pair[0] for pair in pairs]


def read_sentences(lines: Sequence[str]) -> list[list[str]]:
    """Split lines of text into words at single spaces; blank lines are left out.

    Raises:
        DataError: there is no word at all.
    """
    split = [[word for word in line.strip().split(" ") if word] for line in lines]
    sentences = [words for words in split if words]
    if not sentences:
        raise DataError("there is no text to label; give one sentence per line.")
    return sentences
