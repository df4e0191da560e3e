"""The texts of one split: what the reader of a format hands on, and the checked examples."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from probekit.base.fingerprint import digest, digest_stream
from probekit.base.registry import choose
from probekit.errors import DataError
from probekit.tasks.conversations import are_conversations
from probekit.tasks.formats.file_parts import File

DOCUMENT = "document"
"""The group that is a sentence's document, where a corpus knows documents."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One text as a format's reader found it.

    Attributes:
        words: its words; empty where ``text`` is given instead.
        labels: column to one label per word, to the one label of the whole text, or to its set of
            labels, sorted.
        lines: the line (or row) of each word, or of the text, counted from 1, for messages.
        id: the id that the file gives, or None.
        text: the text, where it does not come in words.
        text_pair: the second text of a pair.
        where: its file as messages name it, where the corpus has several.
        groups: column to the value that it shares with others, such as their document.
    """

    words: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]]
    lines: tuple[int, ...]
    id: str | None = None
    text: str | None = None
    text_pair: str | None = None
    where: str | None = None
    groups: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


def plain_text(
    texts: tuple[str, ...],
    labels: Mapping[str, str],
    line: int,
    id: str | None = None,
    groups: Mapping[str, str] | None = None,
) -> Sentence:
    """Return one text, or a pair of texts, with one label per column.

    Args:
        texts: the text, or the two texts of a pair.
        labels: column to the label; a column without a label is absent.
        line: the line or row, counted from 1.
        id: the id that the file gives, or None.
        groups: column to the value that it may share with other texts.
    """
    text, *pair = texts
    named = {column: (label,) for column, label in labels.items()}
    second = pair[0] if pair else None
    return Sentence((), named, (line,), id, text, second, groups=groups or {})


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """All texts of one split.

    Attributes:
        sentences: in the order of the corpus.
        where: where they come from as messages name it (a path or a Hub repository).
        origin: the same as the manifest names it.
        unit: what ``Sentence.lines`` counts.
        unmarked: label columns in which marks like ``_`` are labels (``label_names``).
        taken: the columns that were read without being named, in words.
        sign: what divides the labels of a cell; "" where nothing does.
    """

    sentences: tuple[Sentence, ...]
    where: str
    origin: str
    unit: Literal["line", "row", "example"] = "line"
    unmarked: Collection[str] = ()
    taken: str = ""
    sign: str = ""

    @classmethod
    def of_file(cls, path: File, sentences: Iterable[Sentence]) -> Self:
        """Return the texts of one file."""
        return cls(sentences=tuple(sentences), where=str(path), origin=origin_of(path))

    @classmethod
    def joined(cls, parts: "Sequence[Sentences]") -> "Sentences":
        """Return the sentences of several files as those of one split."""
        first, *others = parts
        if not others:
            return first
        more = f" and {len(others)} more"
        sentences = tuple(
            replace(sentence, where=part.where) for part in parts for sentence in part.sentences
        )
        return replace(
            first,
            sentences=sentences,
            where=first.where + more,
            origin=first.origin + more,
            sign=max(part.sign for part in parts),
        )

    def fault(self, sentence: Sentence, text: str, word: int = 0) -> DataError:
        """Return the error of a fault in a word of a sentence, which names its file and line."""
        number = sentence.lines[word] if word < len(sentence.lines) else "?"
        return DataError(f"{sentence.where or self.where}, {self.unit} {number}: {text}")

    def labels(self, column: str) -> dict[int, tuple[str, ...]]:
        """Return the labels of a column by the number of the sentence, of those that have any."""
        rows = enumerate(self.sentences)
        return {n: sentence.labels[column] for n, sentence in rows if column in sentence.labels}

    def with_labels(self, column: str, labels: Mapping[int, tuple[str, ...]]) -> Self:
        """Return the same sentences with these labels alone in a column, by their number."""
        sentences = []
        for n, sentence in enumerate(self.sentences):
            named = {**sentence.labels, column: labels.get(n)}
            kept = {name: values for name, values in named.items() if values is not None}
            sentences.append(replace(sentence, labels=kept))
        return replace(self, sentences=tuple(sentences))


def origin_of(path: File) -> str:
    """Return how the manifest names a file: "eng.train in DIR"."""
    return f"{path.name} in {path.parent.resolve()}"


class Corpus(Protocol):
    """Where a task's sentences come from: finds and reads the text of one split."""

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read ``split`` from the folder ``data``, or from where the task lives by default."""
        ...


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
class Parts:
    """A split that is too large to be read at once, as parts in the order of its examples.

    Attributes:
        count: about how many parts there are.
        readers: yields a function for each part, which reads it.
        told: returns what tells it from others: contents, and how they are read.
    """

    count: int
    readers: Callable[[], Iterator[Callable[[], Sentences]]]
    told: Callable[[], Any]

    @property
    def source(self) -> str:
        """Hash of what it is read from, and how."""
        return digest(self.told())


@dataclass(frozen=True)
class PartOf:
    """Which part of a split some examples are.

    Attributes:
        source: hash of what the split is read from, and how.
        number: 0, 1, ... in the order of the examples.
        last: whether none follows.
        limit: N where all parts are the first N examples of the split; None if they are all.
    """

    source: str
    number: int
    last: bool
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class Split:
    """The examples of one split in the published order, with their labels.

    Attributes:
        task: the task's name ("wikiann/de").
        name: the split's name ("train").
        examples: N examples.
        labels: column to N tuples: of one label name per word (tagging), or of the one label of
            the whole example (a regression's is a number as text), or of its set of labels; ""
            for a word without a label; a column without labels is absent.
        origin: where the text came from, for the manifest ("eng.train in DIR", "hub:repo@sha").
        documents: the document of each example; empty where not all of them have one.
        limit: N where these are only the first N examples of the split; None if they are all.
        part: which part of the split these are; None where it was read at once.
    """

    task: str
    name: str
    examples: tuple[Example, ...]
    labels: Mapping[str, tuple[tuple[str, ...], ...]]
    origin: str
    documents: tuple[str, ...] = ()
    limit: int | None = None
    part: PartOf | None = None

    @cached_property
    def of_conversations(self) -> bool:
        """Whether the texts are conversations.

        Raises:
            DataError: some are, and some are not.
        """
        single = [example.text for example in self.examples if example.text_pair is None]
        return are_conversations(single)

    @property
    def title(self) -> str:
        """What it is called in what is said of it: ``train``, or ``train, part 3``."""
        return self.name if self.part is None else f"{self.name}, part {self.part.number + 1}"

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
        parts = (part for example, row in labelled for part in (example.id, str(len(row)), *row))
        return digest_stream(map(str.encode, parts))


def _written(example: Example) -> tuple[str, ...]:
    """Return what the fingerprint of a text takes in of an example."""
    if example.text is None:
        return (example.id, str(len(example.words)), *example.words)
    # No number, as the count of words is: a text never equals a list of words.
    form = "text" if example.text_pair is None else "pair"
    return (example.id, form, example.text, example.text_pair or "")
