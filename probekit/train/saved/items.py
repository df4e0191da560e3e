"""What a saved head is given to label: sentences in words, running texts, or pairs of texts."""

from collections.abc import Sequence

from probekit.errors import DataError
from probekit.tasks import Example

Item = str | Sequence[str]
_MIXED = "single texts and pairs are mixed; a head labels the one or the other, as it was trained."


def as_examples(texts: Sequence[Item], kind: str) -> list[Example]:
    """Return texts as examples of the kind that the head was trained on.

    Args:
        texts: as ``predict`` takes them.
        kind: what the head reads: ``tagging`` for texts in words, ``sentence``, ``pair``, or
            ``regression`` where it is not known whether that is one text or two.

    Raises:
        DataError: a text is no pair where one is expected, is a pair or a list of words where a
            running text is, or single texts and pairs are mixed.
    """
    examples = [_example(f"text-{n}", text, kind) for n, text in enumerate(texts, 1)]
    odd = _first_other([example.text_pair is None for example in examples])
    if odd is not None:
        raise DataError(f"{examples[odd].id}: {_MIXED}")
    return examples


def _example(name: str, item: Item, kind: str) -> Example:
    if kind == "tagging":
        words = [word for word in item.split(" ") if word] if isinstance(item, str) else item
        return Example(id=name, words=tuple(words))
    if isinstance(item, str):
        if kind == "pair":
            raise DataError(f"{name}: this head labels pairs of texts; found one text, {item!r}.")
        return Example(id=name, text=item)
    if kind == "sentence":
        raise DataError(
            f"{name}: this head labels single texts; found {len(item)} in a list. Give a string."
        )
    if len(item) != 2:
        raise DataError(f"{name}: expected a pair of texts; found {len(item)} texts.")
    return Example(id=name, text=item[0], text_pair=item[1])


def _first_other(values: Sequence[bool]) -> int | None:
    """Return the first place whose value is not that of the first one."""
    return next((place for place, value in enumerate(values) if value != values[0]), None)


def read_items(lines: Sequence[str], kind: str) -> list[Item]:
    """Turn lines of text into what ``predict`` takes; blank lines are left out.

    Args:
        lines: one text per line; the two texts of a pair lie apart by a TAB.
        kind: what the head reads: tagging splits words at single spaces.

    Raises:
        DataError: there is no text at all, a line of a pair has no TAB or several, a line of a
            single text has one, or single texts and pairs are mixed.
    """
    if kind == "tagging":
        return list(read_sentences(lines))
    numbered = [(n, line.strip("\r\n")) for n, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise DataError("there is no text to label; give one per line.")
    split = [text.split("\t") for _, text in numbered]
    for (number, _), texts in zip(numbered, split, strict=True):
        _check_line(number, len(texts), kind)
    odd = _first_other([len(texts) == 1 for texts in split])
    if odd is not None:
        raise DataError(f"line {numbered[odd][0]}: {_MIXED}")
    return [texts[0] if len(texts) == 1 else tuple(texts) for texts in split]


def _check_line(number: int, n_texts: int, kind: str) -> None:
    """Refuse a line with more or fewer texts than the head reads."""
    if kind == "sentence" and n_texts > 1:
        raise DataError(
            f"line {number}: this head labels single texts, and a TAB stands between two; found "
            f"{n_texts}. Give one text per line, without TABs."
        )
    if n_texts > 2 or (kind == "pair" and n_texts == 1):
        raise DataError(
            f"line {number}: expected two texts with one TAB between them; found {n_texts}."
        )


def read_sentences(lines: Sequence[str]) -> list[list[str]]:
    """Split lines of text into words at single spaces; blank lines are left out.

    Raises:
        DataError: there is no word at all, or a TAB, which a table of words and labels would take
            for the end of a word.
    """
    tabbed = next((number for number, line in enumerate(lines, 1) if "\t" in line.strip()), None)
    if tabbed is not None:
        raise DataError(
            f"line {tabbed}: a TAB in it; give a sentence per line, its words apart by spaces."
        )
    split = [[word for word in line.strip().split(" ") if word] for line in lines]
    sentences = [words for words in split if words]
    if not sentences:
        raise DataError("there is no text to label; give one sentence per line.")
    return sentences
