"""Make a split from the sentences of a source, or say which line breaks a promise."""

import functools
import logging
from collections.abc import Iterator, Sequence

from probekit.errors import DataError
from probekit.tasks.bio import is_tag, opens_with_inside
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.split import Example, Split

logger = logging.getLogger(__name__)


def assemble(
    task: str, split: str, found: Sentences, columns: Sequence[str], spans: Sequence[str]
) -> Split:
    """Return the split that ``found`` holds.

    Args:
        task: the task's name.
        split: the split's name; ids are "<split>-<n>" where the source gives none.
        found: the sentences of the source.
        columns: the label columns to keep; one that no sentence has is left out.
        spans: those of them that hold BIO tags, which are checked and kept as written.

    Raises:
        DataError: no sentences, a sentence without words, a repeated id, labels that some
            sentences lack or that are not one per word, an empty label, a malformed tag.
    """
    if not found.sentences:
        raise DataError(f"{found.where}: split {split!r} of {task} is empty: no sentence in it.")
    examples = tuple(
        Example(sentence.id or f"{split}-{number}", sentence.words)
        for number, sentence in enumerate(found.sentences)
    )
    _check_ids(found, examples)
    present = [c for c in columns if any(c in sentence.labels for sentence in found.sentences)]
    for sentence in found.sentences:
        _check_sentence(found, sentence, present)
    for column in set(spans) & set(present):
        _check_tags(found, column)
    labels = {c: tuple(sentence.labels[c] for sentence in found.sentences) for c in present}
    return Split(task=task, name=split, examples=examples, labels=labels, origin=found.origin)


def _place(found: Sentences, sentence: Sentence, word: int = 0) -> str:
    """Name the source and the line of a word."""
    number = sentence.lines[word] if word < len(sentence.lines) else "?"
    return f"{found.where}, {found.unit} {number}"


def _check_ids(found: Sentences, examples: Sequence[Example]) -> None:
    seen: set[str] = set()
    for example, sentence in zip(examples, found.sentences, strict=True):
        if example.id in seen:
            place = _place(found, sentence)
            raise DataError(f"{place}: the id {example.id!r} occurs twice; ids must differ.")
        seen.add(example.id)


def _check_sentence(found: Sentences, sentence: Sentence, columns: Sequence[str]) -> None:
    if not sentence.words:
        raise DataError(f"{_place(found, sentence)}: an example without words; remove it.")
    for column in columns:
        labels = sentence.labels.get(column)
        if labels is None:
            raise DataError(
                f"{_place(found, sentence)}: no labels in column {column!r}, "
                "which other examples of the split have; label all of them or none."
            )
        if len(labels) != len(sentence.words):
            raise DataError(
                f"{_place(found, sentence)}: {len(sentence.words)} words but {len(labels)} "
                f"labels in column {column!r}; expected one label per word."
            )
        if "" in labels:
            place = _place(found, sentence, labels.index(""))
            raise DataError(f"{place}: an empty label in column {column!r}.")


def _tags(found: Sentences, column: str) -> Iterator[tuple[Sentence, int, str]]:
    for sentence in found.sentences:
        for word, tag in enumerate(sentence.labels[column]):
            yield sentence, word, tag


def _check_tags(found: Sentences, column: str) -> None:
    """Refuse what is no BIO tag; count, but keep, entities that open with I-."""
    for sentence, word, tag in _tags(found, column):
        if not is_tag(tag):
            raise DataError(
                f"{_place(found, sentence, word)}: {tag!r} in column {column!r} is no BIO tag; "
                "expected O, B-TYPE or I-TYPE (convert other schemes first)."
            )
    opened = sum(opens_with_inside(sentence.labels[column]) for sentence in found.sentences)
    if opened:
        _warn_opened(found.where, opened, column)


@functools.lru_cache(maxsize=1024)
def _warn_opened(where: str, opened: int, column: str) -> None:
    """Log it the first time alone: one command may read a file several times."""
    logger.warning(
        "%s: %d entities of column %r open with I- (IOB1?); kept as written.", where, opened, column
    )
