"""The examples of one split, with their labels and the fingerprints of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from probekit.base.fingerprint import digest_stream
from probekit.base.registry import choose


@dataclass(frozen=True, slots=True)
class Example:
    """One text of a task: words, or one text, or a pair of texts.

    Attributes:
        id: unique within its split; "<split>-<n>" unless the file gives one.
        words: the words as the file gives them, never split or normalised further; empty where
            ``text`` is given.
        text: the text, as the file gives it, where it does not come in words.
        text_pair: the second text of a pair.
    """

    id: str
    words: tuple[str, ...] = ()
    text: str | None = None
    text_pair: str | None = None


@dataclass(frozen=True, kw_only=True)
class Split:
    """The examples of one split in the published order, with their labels.

    Attributes:
        task: the task's name ("wikiann/de").
        name: the split's name ("train").
        examples: N examples.
        labels: column to N tuples: of one label name per word (tagging), or of the one label of
            the whole example (a regression's is a number as text); "" for a word without a label; a
            column without labels is absent.
        origin: where the text came from, for the manifest ("eng.train in DIR", "hub:repo@sha").
        documents: the document of each example; empty where not all of them have one.
        limit: N where these are only the first N examples of the split; None if they are all.
    """

    task: str
    name: str
    examples: tuple[Example, ...]
    labels: Mapping[str, tuple[tuple[str, ...], ...]]
    origin: str
    documents: tuple[str, ...] = ()
    limit: int | None = None

    def first(self, count: int | None) -> Self:
        """Return the first ``count`` examples; the split itself for None, or if it has no more."""
        if count is None or count >= len(self.examples):
            return self
        return replace(
            self,
            limit=count,
            examples=self.examples[:count],
            labels={column: rows[:count] for column, rows in self.labels.items()},
            documents=self.documents[:count],
        )

    def text_fingerprint(self) -> str:
        """Return the sha256 (64 hex digits) of ids and words or texts, whatever the labels."""
        parts = (part for example in self.examples for part in _written(example))
        return digest_stream(map(str.encode, parts))

    def labels_fingerprint(self, column: str) -> str:
        """Return the sha256 (64 hex digits) of ids and the labels of ``column``.

        Raises:
            UnknownNameError: the split has no labels in that column.
        """
        rows = choose(f"labelled column of split {self.name!r} of {self.task}", column, self.labels)
        return self._fingerprint(rows)

    def documents_fingerprint(self) -> str:
        """Return the sha256 (64 hex digits) of ids and documents, where there are any."""
        return self._fingerprint([(document,) for document in self.documents])

    def _fingerprint(self, rows: Sequence[Sequence[str]]) -> str:
        labelled = zip(self.examples, rows, strict=True)
        parts = (part for one, own in labelled for part in (one.id, str(len(own)), *own))
        return digest_stream(map(str.encode, parts))


def _written(example: Example) -> tuple[str, ...]:
    """Return what the fingerprint of a text takes in of an example."""
    if example.text is None:
        return (example.id, str(len(example.words)), *example.words)
    # No number, as the count of words is: a text never equals a list of words.
    form = "text" if example.text_pair is None else "pair"
    return (example.id, form, example.text, example.text_pair or "")
