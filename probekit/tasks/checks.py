"""What every example and label of a split must be, with messages that name the line."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from probekit.base.kinds import KindName
from probekit.base.notices import warn_once
from probekit.errors import DataError
from probekit.tasks.bio import is_tag, opens_with_inside
from probekit.tasks.numeric_labels import is_number
from probekit.tasks.own.unlabelled import NO_LABEL, check_filled
from probekit.tasks.sentences import Sentence, Sentences

logger = logging.getLogger(__name__)

_FEW, _MANY = 3, 20
"""Words from which on underscores alone, or no letter at all, are no accident."""


def check_ids(found: Sentences, ids: Sequence[str]) -> None:
    """Refuse an id that occurs twice."""
    seen: set[str] = set()
    for name, sentence in zip(ids, found.sentences, strict=True):
        if name in seen:
            raise DataError(
                f"{found.place(sentence)}: the id {name!r} occurs twice; ids must differ."
            )
        seen.add(name)


def check_text(found: Sentences, sentence: Sentence, kind: KindName) -> None:
    """Refuse an example without text, and one or two texts where the kind asks for the other."""
    if kind == "tagging":
        if not sentence.words:
            raise DataError(f"{found.place(sentence)}: an example without words; remove it.")
        return
    texts = [text for text in (sentence.text, sentence.text_pair) if text is not None]
    if not any(text.strip() for text in texts):
        raise DataError(f"{found.place(sentence)}: an example without text; remove it.")
    expected = {"pair": (2,), "regression": (1, 2)}.get(kind, (1,))
    if len(texts) not in expected:
        raise DataError(
            f"{found.place(sentence)}: kind {kind} takes {expected[0]} text(s) per example, "
            f"found {len(texts)}."
        )


def check_words(found: Sentences) -> None:
    """Refuse a column of words, or of texts, that holds none: the text was taken out.

    That is one where most words are made of underscores alone; and among ``_MANY`` or more, one
    with no letter in it, or one word over and over.
    """
    for noun, texts in _written(found).items():
        _check_written(found.where, noun, texts)


def _written(found: Sentences) -> dict[str, list[str]]:
    """Return the words of all sentences, their texts, and the second ones of pairs."""
    words = [word for one in found.sentences for word in one.words]
    texts = [one.text for one in found.sentences if one.text is not None]
    pairs = [one.text_pair for one in found.sentences if one.text_pair is not None]
    return {"words": words, "texts": texts, "second texts": pairs}


def _check_written(where: str, noun: str, texts: Sequence[str]) -> None:
    blind = sum(set(text) == {"_"} for text in texts)
    counts = Counter(texts)
    if len(texts) >= _FEW and 2 * blind > len(texts):
        what = f"{blind} of {len(texts)} {noun} are written '_'"
    elif len(texts) >= _MANY and len(counts) == 1:
        what = f"all {len(texts)} {noun} are {texts[0]!r}"
    elif len(texts) >= _MANY and not any(map(_has_letter, counts)):
        what = f"none of {len(texts)} {noun} has a letter, such as {texts[0]!r}"
    else:
        return
    raise DataError(
        f"{where}: {what}, so the text is not in that column. Some treebanks are published without "
        "it, and their README says how to put it in; if another column holds it, give --text."
    )


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def check_labels(found: Sentences, sentence: Sentence, kinds: Mapping[str, KindName]) -> None:
    """Refuse missing labels, the wrong number of them, and labels that are none.

    Args:
        found: the source, for messages.
        sentence: one of its sentences.
        kinds: column to its kind, for the columns that any sentence of the split has.
    """
    for column, kind in kinds.items():
        labels = sentence.labels.get(column)
        if labels is None:
            raise DataError(
                f"{found.place(sentence)}: no labels in column {column!r}, "
                "which other examples of the split have; label all of them or none."
            )
        _check_count(found, sentence, column, kind)
        if kind != "tagging":
            check_filled(found, sentence, column, labels)
        if kind == "regression" and not is_number(labels[0]):
            raise DataError(
                f"{found.place(sentence)}: {labels[0]!r} in column {column!r} is no finite "
                "number; regression needs one per example, such as 3.8."
            )


def check_tags(found: Sentences, column: str) -> None:
    """Refuse what is no BIO tag; count, but keep, entities that open with I-.

    Tags without a type (B, I and O alone) are one nameless type.
    """
    tags = {tag for _, _, tag in _tags(found, column)}
    nameless = tags <= {"O", "B", "I"}
    for sentence, word, tag in _tags(found, column):
        if not (is_tag(tag) or nameless):
            raise DataError(
                f"{found.place(sentence, word)}: {tag!r} in column {column!r} is no BIO tag; "
                "expected O, B-TYPE or I-TYPE (IOB1, IOBES and BILOU are read where all of it is "
                "one of them; convert other schemes first)."
            )
    opened = sum(opens_with_inside(sentence.labels[column]) for sentence in found.sentences)
    if opened:
        warn_once(
            logger,
            "%s: %d entities of column %r open with I- (IOB1?); kept as written.",
            found.where,
            opened,
            column,
        )


def _check_count(found: Sentences, sentence: Sentence, column: str, kind: KindName) -> None:
    labels = sentence.labels[column]
    if kind == "tagging" and len(labels) != len(sentence.words):
        raise DataError(
            f"{found.place(sentence)}: {len(sentence.words)} words but {len(labels)} "
            f"labels in column {column!r}; expected one label per word."
        )
    if kind != "tagging" and len(labels) != 1:
        raise DataError(
            f"{found.place(sentence)}: {len(labels)} labels in column {column!r}; expected one "
            f"per example (kind {kind})."
        )


def _tags(found: Sentences, column: str) -> Iterator[tuple[Sentence, int, str]]:
    for sentence in found.sentences:
        for word, tag in enumerate(sentence.labels[column]):
            if tag != NO_LABEL:
                yield sentence, word, tag
