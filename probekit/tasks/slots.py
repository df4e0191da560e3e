"""ATIS and SNIPS: slots of spoken requests, in the parallel files of the slot-filling papers."""

from pathlib import Path

from probekit.errors import DataError, MissingFileError
from probekit.tasks.lines import read_lines
from probekit.tasks.published import Published
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.types import Task

FILES = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}
OBTAIN = "https://github.com/monologg/JointBERT (folder data)"


def parse_parallel(folder: Path) -> Sentences:
    """Read ``seq.in`` (words) and ``seq.out`` (BIO tags), one utterance per line.

    Raises:
        MissingFileError: one of the files is not there.
        DataError: the files differ in their number of lines, or a line has another number of
            words than of tags, or none.
    """
    words_path, tags_path = folder / "seq.in", folder / "seq.out"
    for path in (words_path, tags_path):
        if not path.is_file():
            raise MissingFileError(f"{path}: no such file; a split is seq.in and seq.out.")
    texts, tags = (_trimmed(path) for path in (words_path, tags_path))
    if len(texts) != len(tags):
        raise DataError(
            f"{words_path} has {len(texts)} lines, but {tags_path} has {len(tags)}; expected "
            "one line of tags per line of words."
        )
    sentences = tuple(
        _sentence(words_path, tags_path, number, pair)
        for number, pair in enumerate(zip(texts, tags, strict=True), start=1)
    )
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


def _sentence(words_path: Path, tags_path: Path, number: int, pair: tuple[str, str]) -> Sentence:
    words, tags = map(split_words, pair)
    if len(words) != len(tags):
        raise DataError(
            f"{tags_path}, line {number}: {len(tags)} tags for the {len(words)} words of "
            f"{words_path.name}; expected one tag per word."
        )
    return Sentence(words, {"slots": tags}, (number,) * max(len(words), 1))


def _parallel_task(name: str) -> Task:
    return Task(
        name=name,
        columns=("slots",),
        metrics={"slots": "span-f1"},
        splits=tuple(FILES),
        source=Published(
            task=name, files=FILES, parse=parse_parallel, obtain=OBTAIN, folders=(name,)
        ),
    )


def atis() -> Task:
    """Return the task ``atis``."""
    return _parallel_task("atis")


def snips() -> Task:
    """Return the task ``snips``."""
    return _parallel_task("snips")
