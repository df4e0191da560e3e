"""ATIS and SNIPS: slots and intents of spoken requests, in the papers' parallel files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from probekit.base.kinds import KindName
from probekit.errors import DataError, MissingFileError
from probekit.tasks.corpora.published import Published
from probekit.tasks.formats.text_lines import read_lines
from probekit.tasks.label_names import trim
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Task

FILES = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}
METRICS: Mapping[str, str] = {"slots": "span-f1", "intent": "micro-f1"}
KINDS: Mapping[str, KindName] = {"slots": "tagging", "intent": "sentence"}
OBTAIN = "https://github.com/monologg/JointBERT (folder data)"


def parse_parallel(folder: Path) -> Sentences:
    """Read ``seq.in`` (words), ``seq.out`` (BIO tags) and ``label`` (intents), line by line.

    A folder without ``label`` has no intents. Joined intents ("flight#airfare") are one class.

    Raises:
        MissingFileError: ``seq.in`` or ``seq.out`` is not there.
        DataError: the files differ in their number of lines, or a line has another number of
            words than of tags, or none.
    """
    words_path, tags_path, intents_path = (folder / name for name in ("seq.in", "seq.out", "label"))
    for path in (words_path, tags_path):
        if not path.is_file():
            raise MissingFileError(f"{path}: no such file; a split is seq.in and seq.out.")
    texts, tags = _trimmed(words_path), _trimmed(tags_path)
    _check_parallel(words_path, texts, tags_path, tags, "tags")
    intents: Sequence[str | None] = [None] * len(texts)
    if intents_path.is_file():
        named = _trimmed(intents_path)
        _check_parallel(words_path, texts, intents_path, named, "intents")
        intents = named
    rows = enumerate(zip(texts, tags, intents, strict=True), start=1)
    sentences = tuple(_sentence(tags_path, number, *row) for number, row in rows)
    origin = f"{folder.name}/seq.in in {folder.parent.resolve()}"
    return Sentences(sentences=sentences, where=str(tags_path), origin=origin)


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a text divided by ASCII spaces, and by nothing else."""
    return tuple(word for word in text.split(" ") if word)


def _trimmed(path: Path) -> list[str]:
    """Return the lines of a file without the blank ones at its end."""
    lines = read_lines(path)
    while lines and not lines[-1].strip(" \t"):
        lines.pop()
    return lines


def _check_parallel(
    path: Path, lines: Sequence[str], other: Path, others: Sequence[str], what: str
) -> None:
    if len(lines) != len(others):
        raise DataError(
            f"{path} has {len(lines)} lines, but {other} has {len(others)}; expected "
            f"one line of {what} per line of words."
        )


def _sentence(path: Path, number: int, text: str, row: str, intent: str | None) -> Sentence:
    words, tags = split_words(text), split_words(row)
    if len(words) != len(tags):
        raise DataError(
            f"{path}, line {number}: {len(tags)} tags for the {len(words)} words of seq.in; "
            "expected one tag per word."
        )
    labels = {"slots": tags} | ({} if intent is None else {"intent": (trim(intent),)})
    return Sentence(words, labels, (number,) * max(len(words), 1))


def slots(name: str) -> Task:
    """Return the task ``atis`` or ``snips``."""
    corpus = Published(task=name, files=FILES, parse=parse_parallel, obtain=OBTAIN, folders=(name,))
    return corpus.labelled(METRICS, kinds=KINDS)
