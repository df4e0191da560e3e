"""Make a split from the sentences of a corpus, or say which line breaks a promise."""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from probekit.base.kinds import KINDS, KindName
from probekit.base.notices import warn_once
from probekit.errors import DataError
from probekit.tasks.schemes import BIO_TAG, NO_LABEL, iob1_to_bio, is_number, marks_among, trim
from probekit.tasks.sentences import DOCUMENT, Example, Sentence, Sentences, Split

logger = logging.getLogger(__name__)

_FEW, _MANY = 3, 20
"""Words from which on underscores alone, or no letter at all, are no accident."""


def assemble(
    task: str,
    split: str,
    corpus: Sentences,
    *,
    kind: KindName,
    kinds: Mapping[str, KindName],
    spans: Collection[str] = (),
    ids: str | None = None,
) -> Split:
    """Return the split that sentences are.

    Args:
        task: the task's name.
        split: the split's name.
        corpus: the sentences of the corpus.
        kind: the kind of the text: words for tagging, one or two texts for the others.
        kinds: the label columns to keep with the kind of each; one that no sentence has is left
            out.
        spans: those of them that hold BIO tags, which are checked and kept as written.
        ids: ids are "<ids>-<n>" where the corpus gives none; None is the split's name.

    Raises:
        DataError: no sentences, a sentence without words or text, a repeated id, labels that some
            sentences lack or that are not as many as their kind asks for, an empty label, a
            malformed tag, no words in the column of words, a regression label that is no finite
            number.
    """
    if not corpus.sentences:
        raise DataError(f"{corpus.where}: split {split!r} of {task} is empty.")
    examples = tuple(
        Example(name_example(each, ids or split, n), each.words, each.text, each.text_pair)
        for n, each in enumerate(corpus.sentences)
    )
    seen: set[str] = set()
    for example, sentence in zip(examples, corpus.sentences, strict=True):
        if example.id in seen:
            fault = f"the id {example.id!r} occurs twice; every example needs its own."
            raise corpus.fault(sentence, fault)
        seen.add(example.id)
    _check_words(corpus)
    labelled = {column for sentence in corpus.sentences for column in sentence.labels}
    present = {column: of for column, of in kinds.items() if column in labelled}
    for sentence in corpus.sentences:
        check_text(corpus, sentence, kind)
        for column, of in present.items():
            _check_labels(corpus, sentence, column, of)
    for column in set(spans) & set(present):
        _check_tags(corpus, column)
    labels = {c: tuple(sentence.labels[c] for sentence in corpus.sentences) for c in present}
    return Split(
        task=task,
        name=split,
        examples=examples,
        labels=labels,
        origin=corpus.origin,
        documents=() if DOCUMENT in labels else _documents(corpus),
    )


def _documents(corpus: Sentences) -> tuple[str, ...]:
    """Return the document of each sentence; nothing, and a word, where some have none."""
    documents = tuple(sentence.groups.get(DOCUMENT, "") for sentence in corpus.sentences)
    missing = documents.count("")
    if 0 < missing < len(documents):
        warn_once(
            logger,
            f"{corpus.where}: {missing} of {len(documents)} sentences belong to no document, so "
            "intervals are computed over sentences.",
        )
    return () if missing else documents


def name_example(sentence: Sentence, split: str, number: int) -> str:
    """Return the id of an example: the file's own, or its split and number."""
    return sentence.id or f"{split}-{number}"


def settle_labels(corpus: Sentences, columns: Collection[str]) -> Sentences:
    """Return sentences whose labels of words have no blanks around them and no marks among them.

    A word that is marked as not annotated has the label ``NO_LABEL``; a column that has no other
    is left out. How many such words there are is said.

    Args:
        corpus: what a reader found.
        columns: the label columns that label words.

    Raises:
        DataError: an empty label.
    """
    for column in columns:
        rows = corpus.labels(column)
        counts = Counter(chain.from_iterable(rows.values()))
        trimmed = {name: trim(name) for name in counts}
        names = set(trimmed.values())
        for n, labels in rows.items() if NO_LABEL in names else ():
            _check_filled(corpus, corpus.sentences[n], column, [trimmed[label] for label in labels])
        marks = set() if column in corpus.unmarked else marks_among(names)
        if names and names == marks:
            corpus = corpus.with_labels(column, {})
            continue
        if marks:
            warn_once(
                logger,
                f"{corpus.where}: "
                f"{sum(counts[name] for name in counts if trimmed[name] in marks)} words have "
                f"no label in column {column!r} ({', '.join(sorted(marks))}); they are neither "
                "trained on nor scored.",
            )
        settled = {name: NO_LABEL if label in marks else label for name, label in trimmed.items()}
        turned = {n: tuple(settled[label] for label in row) for n, row in rows.items()}
        corpus = corpus.with_labels(column, turned)
    return corpus


def check_text(corpus: Sentences, sentence: Sentence, kind: KindName) -> None:
    """Refuse an example without text, and one or two texts where the kind asks for the other."""
    if KINDS[kind].per == "word":
        if not sentence.words:
            raise corpus.fault(sentence, "an example without words; remove it.")
        return
    texts = [text for text in (sentence.text, sentence.text_pair) if text is not None]
    if not any(text.strip() for text in texts):
        raise corpus.fault(sentence, "an example without text; remove it.")
    expected = KINDS[kind].texts
    if len(texts) not in expected:
        raise corpus.fault(
            sentence, f"kind {kind} takes {expected[0]} text(s) per example, found {len(texts)}."
        )


def _check_words(corpus: Sentences) -> None:
    """Refuse a column of words, or of texts, that holds none: the text was taken out.

    That is one where most words are made of underscores alone; and among ``_MANY`` or more, one
    word over and over, or one with no letter in it. Texts of several signs need no letter (sums),
    and every pair may have the same second text (one hypothesis).
    """
    sentences = corpus.sentences
    written = {
        "words": [word for sentence in sentences for word in sentence.words],
        "texts": [sentence.text for sentence in sentences if sentence.text is not None],
        "second texts": [each.text_pair for each in sentences if each.text_pair is not None],
    }
    for noun, texts in written.items():
        blind = sum(set(text) == {"_"} for text in texts)
        counts = Counter(texts)
        if len(texts) >= _FEW and 2 * blind > len(texts):
            what = f"{blind} of {len(texts)} {noun} are written '_'"
        elif len(texts) >= _MANY and len(counts) == 1 and noun != "second texts":
            what = f"all {len(texts)} {noun} are {texts[0]!r}"
        elif len(texts) >= _MANY and not any(map(_may_be_text, counts)):
            what = f"none of {len(texts)} {noun} has a letter, such as {texts[0]!r}"
        else:
            continue
        raise DataError(
            f"{corpus.where}: {what}, so that column does not hold the text. Some treebanks are "
            "published without their text, and their README says how to add it. If another column "
            "holds the text, name it with --text."
        )


def _may_be_text(text: str) -> bool:
    return any(map(str.isalpha, text)) or len(text.split()) > 1


def _check_labels(corpus: Sentences, sentence: Sentence, column: str, kind: KindName) -> None:
    """Refuse missing labels, the wrong number of them, and labels that are none."""
    labels = sentence.labels.get(column)
    if labels is None:
        raise corpus.fault(
            sentence,
            f"no labels in column {column!r}, but other examples of the split have some; label "
            "all of them or none.",
        )
    of_words, count = KINDS[kind].per == "word", len(labels)
    if of_words and count != len(sentence.words):
        raise corpus.fault(
            sentence,
            f"{len(sentence.words)} words but {count} labels in column {column!r}; expected one "
            "label per word.",
        )
    if KINDS[kind].targets != "sets" and KINDS[kind].per == "text" and count != 1:
        raise corpus.fault(
            sentence,
            f"{count} labels in column {column!r}; expected one per example (kind {kind}).",
        )
    if not of_words:
        _check_filled(corpus, sentence, column, labels)
    if KINDS[kind].targets == "numbers" and not is_number(labels[0]):
        raise corpus.fault(
            sentence,
            f"{labels[0]!r} in column {column!r} is not a finite number (up to 3.4e38); a "
            "regression needs one number per example, such as 3.8.",
        )


def _check_filled(
    corpus: Sentences, sentence: Sentence, column: str, labels: Sequence[str]
) -> None:
    """Refuse an empty label among those of a sentence."""
    if "" in labels:
        raise corpus.fault(sentence, f"the label in column {column!r} is empty.", labels.index(""))


def _check_tags(corpus: Sentences, column: str) -> None:
    """Refuse what is no BIO tag; count, but keep, entities that open with I-.

    Tags without a type (B, I and O alone) are one nameless type.
    """
    tags = {tag for sentence in corpus.sentences for tag in sentence.labels[column]} - {NO_LABEL}
    bare = tags <= {"O", "B", "I"}
    wrong = set() if bare else {tag for tag in tags if not BIO_TAG.fullmatch(tag)}
    for sentence in corpus.sentences if wrong else ():
        for word, tag in enumerate(sentence.labels[column]):
            if tag in wrong:
                text = (
                    f"{tag!r} in column {column!r} is not a BIO tag; expected O, B-TYPE or "
                    "I-TYPE. A column that is IOB1, IOBES or BILOU throughout is converted; "
                    "convert other schemes first."
                )
                raise corpus.fault(sentence, text, word)
    rows = (sentence.labels[column] for sentence in corpus.sentences)
    opened = sum(a != b for row in rows for a, b in zip(row, iob1_to_bio(row), strict=True))
    if opened:
        warn_once(
            logger,
            f"{corpus.where}: {opened} entities in column {column!r} begin with I- (is this "
            "IOB1?); they are kept as written.",
        )
