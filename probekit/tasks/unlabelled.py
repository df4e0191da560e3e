"""Numbers that data sets write where a word has no label."""

from dataclasses import replace

from probekit.errors import DataError
from probekit.tasks.sentences import Sentence, Sentences

NO_LABEL = {"-1", "-100"}
"""What ``datasets`` writes for an unlabelled split, and what losses are told to ignore."""


def drop_unlabelled(found: Sentences) -> Sentences:
    """Return sentences of labelled words without those labels that say that there is none.

    Raises:
        DataError: a sentence of which only some words have a label.
    """
    return replace(found, sentences=tuple(_dropped(found, one) for one in found.sentences))


def _dropped(found: Sentences, sentence: Sentence) -> Sentence:
    labels = {}
    for column, names in sentence.labels.items():
        if names and NO_LABEL.issuperset(names):
            continue
        labels[column] = names
        for place, (word, name) in enumerate(zip(sentence.words, names, strict=False)):
            if name in NO_LABEL:
                raise DataError(
                    f"{found.place(sentence, place)}: word {word!r} has the label {name} in "
                    f"column {column!r}, which means none (a class needs another name), but other "
                    "words of its sentence have one; label all of them or none."
                )
    return replace(sentence, labels=labels)
