"""Make a split from the sentences of a source, or say which line breaks a promise."""

from collections.abc import Collection, Mapping

from probekit.base.kinds import KindName
from probekit.errors import DataError
from probekit.tasks.checks import check_ids, check_labels, check_tags, check_text, check_words
from probekit.tasks.sentences import Sentences
from probekit.tasks.split import Example, Split


def assemble(
    task: str,
    split: str,
    found: Sentences,
    *,
    kind: KindName,
    kinds: Mapping[str, KindName],
    spans: Collection[str] = (),
) -> Split:
    """Return the split that ``found`` holds.

    Args:
        task: the task's name.
        split: the split's name; ids are "<split>-<n>" where the source gives none.
        found: the sentences of the source.
        kind: the kind of the text: words for tagging, one or two texts for the others.
        kinds: the label columns to keep with the kind of each; one that no sentence has is left
            out.
        spans: those of them that hold BIO tags, which are checked and kept as written.

    Raises:
        DataError: no sentences, a sentence without words or text, a repeated id, labels that some
            sentences lack or that are not as many as their kind asks for, an empty label, a
            malformed tag, no words in the column of words, a regression label that is no finite
            number.
    """
    if not found.sentences:
        raise DataError(f"{found.where}: split {split!r} of {task} is empty: no sentence in it.")
    examples = tuple(
        Example(
            sentence.id or f"{split}-{number}", sentence.words, sentence.text, sentence.text_pair
        )
        for number, sentence in enumerate(found.sentences)
    )
    check_ids(found, [example.id for example in examples])
    check_words(found)
    labelled = {column for sentence in found.sentences for column in sentence.labels}
    present = {column: of for column, of in kinds.items() if column in labelled}
    for sentence in found.sentences:
        check_text(found, sentence, kind)
        check_labels(found, sentence, present)
    for column in set(spans) & set(present):
        check_tags(found, column)
    labels = {c: tuple(sentence.labels[c] for sentence in found.sentences) for c in present}
    return Split(task=task, name=split, examples=examples, labels=labels, origin=found.origin)
