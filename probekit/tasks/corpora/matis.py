"""MultiATIS++: the slots and intents of ATIS in nine languages (Xu et al., 2020)."""

from collections.abc import Sequence
from pathlib import Path

from probekit.base.kinds import SPLITS
from probekit.errors import DataError
from probekit.tasks.corpora.published import Published, origin_of
from probekit.tasks.corpora.slots import COLUMNS, KINDS, METRICS, split_words
from probekit.tasks.formats.text_lines import read_lines
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Task

NEEDED = ("id", "utterance", "slot_labels")


def parse_matis(path: Path) -> Sentences:
    """Read a MultiATIS++ table: TABs, a header, no quoting.

    Words are divided by ASCII spaces alone: a no-break or an ideographic space is part of a word.
    A table without the column ``intent`` has no intents.

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
    sentences = tuple(
        _sentence(path, number, line, header)
        for number, line in enumerate(lines[1:], start=2)
        if line.strip(" \t")
    )
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def _sentence(path: Path, number: int, line: str, header: Sequence[str]) -> Sentence:
    cells = line.split("\t")
    if len(cells) != len(header):
        raise DataError(
            f"{path}, line {number}: expected {len(header)} columns divided by TABs, "
            f"found {len(cells)}."
        )
    row = dict(zip(header, cells, strict=True))
    words, slots = split_words(row["utterance"]), split_words(row["slot_labels"])
    if len(words) != len(slots):
        raise DataError(
            f"{path}, line {number}: {len(words)} words but {len(slots)} slot labels; expected "
            "one label per word."
        )
    labels = {"slots": slots}
    if "intent" in row:
        labels["intent"] = (row["intent"].strip(" "),)
    return Sentence(words, labels, (number,) * max(len(words), 1), row["id"] or None)


def matis(language: str) -> Task:
    """Return the task ``matis/<language>`` ("matis/de")."""
    name = f"matis/{language}"
    return Task(
        name=name,
        columns=COLUMNS,
        metrics=METRICS,
        kinds=KINDS,
        splits=SPLITS,
        source=Published(
            task=name,
            files={
                split: (f"{split}_{language.upper()}.tsv", f"{split}_{language}.tsv")
                for split in SPLITS
            },
            folders=(language,),
            parse=parse_matis,
            obtain="https://github.com/amazon-science/multiatis",
        ),
    )
