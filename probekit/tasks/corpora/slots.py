"""ATIS, SNIPS and MultiATIS++ (ATIS in nine languages): slots and intents of spoken requests."""

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path

from probekit.base.kinds import SPLITS, KindName
from probekit.errors import DataError, MissingFileError
from probekit.tasks.corpora.published import Published, read_table
from probekit.tasks.formats.text_lines import read_lines
from probekit.tasks.schemes import trim
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Task

FILES = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}
METRICS: Mapping[str, str] = {"slots": "span-f1", "intent": "micro-f1"}
KINDS: Mapping[str, KindName] = {"slots": "tagging", "intent": "sentence"}
OBTAIN = "https://github.com/monologg/JointBERT (folder data)"
NEEDED = ("id", "utterance", "slot_labels")
"""Columns of a MultiATIS++ table; ``intent`` may be missing."""


def slots(name: str) -> Task:
    """Return the task ``atis`` or ``snips``."""
    corpus = Published(task=name, files=FILES, parse=parse_parallel, obtain=OBTAIN, folders=(name,))
    return corpus.labelled(METRICS, kinds=KINDS)


def matis(language: str) -> Task:
    """Return the task ``matis/<language>`` ("matis/de"), ATIS translated (Xu et al., 2020)."""
    corpus = Published(
        task=f"matis/{language}",
        files={s: (f"{s}_{language.upper()}.tsv", f"{s}_{language}.tsv") for s in SPLITS},
        folders=(language,),
        parse=parse_matis,
        obtain="https://github.com/amazon-science/multiatis",
    )
    return corpus.labelled(METRICS, kinds=KINDS)


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
            raise MissingFileError(f"{path}: no such file; every split needs seq.in and seq.out.")
    texts, tags = _trimmed(words_path), _trimmed(tags_path)
    intents = [trim(name) for name in _trimmed(intents_path)] if intents_path.is_file() else None
    for path, lines, what in ((tags_path, tags, "tags"), (intents_path, intents, "intents")):
        if lines is not None and len(lines) != len(texts):
            raise DataError(
                f"{words_path} has {len(texts)} lines, but {path} has {len(lines)}; expected "
                f"one line of {what} per line of words."
            )
    named: Iterable[str | None] = itertools.repeat(None) if intents is None else intents
    rows = zip(texts, tags, named, strict=False)
    fault = "{1} tags for the {0} words of seq.in; expected one tag per word."
    sentences = tuple(_sentence(tags_path, n, *row, fault) for n, row in enumerate(rows, start=1))
    origin = f"{folder.name}/seq.in in {folder.parent.resolve()}"
    return Sentences(sentences=sentences, where=str(tags_path), origin=origin)


def parse_matis(path: Path) -> Sentences:
    """Read a MultiATIS++ table: TABs, a header, no quoting.

    A table without the column ``intent`` has no intents.

    Raises:
        DataError: the header lacks a column, a row has another number of cells, or a row has
            another number of words than of labels.
    """
    fault = "{0} words but {1} slot labels; expected one label per word."
    sentences = []
    for number, row in read_table(path, NEEDED):
        intent = row["intent"].strip(" ") if "intent" in row else None
        columns = row["utterance"], row["slot_labels"], intent
        sentences.append(_sentence(path, number, *columns, fault, row["id"] or None))
    return Sentences.of_file(path, sentences)


def _trimmed(path: Path) -> list[str]:
    """Return the lines of a file without the blank ones at its end."""
    lines = read_lines(path)
    while lines and not lines[-1].strip(" \t"):
        lines.pop()
    return lines


def _sentence(
    path: Path,
    number: int,
    text: str,
    slots: str,
    intent: str | None,
    fault: str,
    id: str | None = None,
) -> Sentence:
    """Return a sentence of as many words as slots; ``fault`` names the two counts if not."""
    # A no-break or an ideographic space is part of a word: ASCII spaces alone divide.
    words, tags = (tuple(word for word in cell.split(" ") if word) for cell in (text, slots))
    if len(words) != len(tags):
        raise DataError(f"{path}, line {number}: {fault.format(len(words), len(tags))}")
    labels = {"slots": tags} | ({} if intent is None else {"intent": (intent,)})
    return Sentence(words, labels, (number,) * max(len(words), 1), id)
