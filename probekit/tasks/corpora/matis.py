"""MultiATIS++: the slots and intents of ATIS in nine languages (Xu et al., 2020)."""

from collections.abc import Mapping
from pathlib import Path

from probekit.base.kinds import SPLITS
from probekit.errors import DataError
from probekit.tasks.corpora.published import Published
from probekit.tasks.corpora.slots import KINDS, METRICS, split_words
from probekit.tasks.formats.text_lines import read_lines, tab_cells
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
    rows = (
        (number, tab_cells(path, number, line, len(header)))
        for number, line in enumerate(lines[1:], start=2)
        if line.strip(" \t")
    )
    sentences = (_sentence(path, n, dict(zip(header, cells, strict=True))) for n, cells in rows)
    return Sentences.of_file(path, sentences)


def _sentence(path: Path, number: int, row: Mapping[str, str]) -> Sentence:
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
    corpus = Published(
        task=f"matis/{language}",
        files={
            split: (f"{split}_{language.upper()}.tsv", f"{split}_{language}.tsv")
            for split in SPLITS
        },
        folders=(language,),
        parse=parse_matis,
        obtain="https://github.com/amazon-science/multiatis",
    )
    return corpus.labelled(METRICS, kinds=KINDS)
