"""MultiATIS++: the slots of ATIS in nine languages (Xu et al., 2020)."""

from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.lines import read_lines
from probekit.tasks.published import Published, origin_of
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.slots import split_words
from probekit.tasks.types import Task

NEEDED = ("id", "utterance", "slot_labels")


def parse_matis(path: Path) -> Sentences:
    """Read a MultiATIS++ table: TABs, a header, no quoting.

    Words are divided by ASCII spaces alone: a no-break or an ideographic space is part of a word.

    Raises:
        DataError: the header lacks a column, a row has another number of cells, or a row has
            another number of words than of labels.
    """
    lines = read_lines(path)
    header = lines[0].split("\t") if lines else []
    missing = [name for name in NEEDED if name not in header]
    if lines and missing:
        raise DataError(
            f"{path}, line 1: expected a header with {', '.join(NEEDED)}; "
            f"{', '.join(missing)} missing in {', '.join(header)}."
        )
    places = [header.index(name) for name in NEEDED] if lines else []
    sentences = tuple(
        _sentence(path, number, line, len(header), places)
        for number, line in enumerate(lines[1:], start=2)
        if line.strip(" \t")
    )
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def _sentence(path: Path, number: int, line: str, width: int, places: list[int]) -> Sentence:
    cells = line.split("\t")
    if len(cells) != width:
        raise DataError(
            f"{path}, line {number}: expected {width} columns divided by TABs, found {len(cells)}."
        )
    name, text, tags = (cells[place] for place in places)
    words, labels = split_words(text), split_words(tags)
    if len(words) != len(labels):
        raise DataError(
            f"{path}, line {number}: {len(words)} words but {len(labels)} slot labels; expected "
            "one label per word."
        )
    return Sentence(words, {"slots": labels}, (number,) * max(len(words), 1), name or None)


def matis(language: str) -> Task:
    """Return the task ``matis/<language>`` ("matis/de")."""
    name = f"matis/{language}"
    splits = ("train", "dev", "test")
    return Task(
        name=name,
        columns=("slots",),
        metrics={"slots": "span-f1"},
        splits=splits,
        source=Published(
            task=name,
            files={
                split: (f"{split}_{language.upper()}.tsv", f"{split}_{language}.tsv")
                for split in splits
            },
            folders=(language,),
            parse=parse_matis,
            obtain="https://github.com/amazon-science/multiatis",
        ),
    )
