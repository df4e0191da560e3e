"""WikiText-2: articles of the English Wikipedia for language modelling (Merity et al., 2017)."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.corpora.published import find_file
from probekit.tasks.formats.text_lines import read_lines
from probekit.tasks.hub_repository import HubRepository, read_hub
from probekit.tasks.sentences import DOCUMENT, Sentence, Sentences, plain_text
from probekit.tasks.task import Task

NAMES = {"train": "train", "dev": "valid", "test": "test"}
FOLDERS = ("wikitext-2", "wikitext-2-raw", "raw")
FORMS = ("tokens", "raw")
HUB = HubRepository(
    repo="Salesforce/wikitext", config="wikitext-2-raw-v1", texts=("text",), labels={}
)
# " = Title = ", but not " = = Section = = ". Lines of tables may look alike (" = 1 henry = "): a
# title stands between blank lines.
_TITLE = re.compile(r" = [^=\s].* = ?")
_DEEPER = re.compile(r".*= = ?")


def parse_wikitext(path: Path) -> Sentences:
    """Read one file of WikiText: an example per article, from its title to its last line of text.

    Lines stay as published, divided by line feeds; the blank lines between articles belong to none.

    Raises:
        DataError: text before the first title.
    """
    return Sentences.of_file(path, articles(str(path), "line", read_lines(path)))


def articles(where: str, unit: str, lines: Sequence[str]) -> tuple[Sentence, ...]:
    """Return the articles in ``lines``.

    Args:
        where: the source, for messages.
        unit: what is counted, "line" or "row".
        lines: the lines without their ends.

    Raises:
        DataError: text before the first title.
    """
    starts = [n for n in range(len(lines)) if _opens(lines, n)]
    before = lines[: starts[0]] if starts else lines
    stray = next((n for n, line in enumerate(before, start=1) if line.strip()), None)
    if stray is not None:
        raise DataError(
            f"{where}, {unit} {stray}: text before the first title; expected a line like "
            "' = Title = ' between blank lines. Is this WikiText?"
        )
    ends = [*starts[1:], len(lines)][: len(starts)]
    return tuple(
        plain_text(
            (_text(lines[start:end]),),
            {},
            start + 1,
            groups={DOCUMENT: f"{start + 1}: {lines[start].strip(' =')}"},  # titles recur: <unk>
        )
        for start, end in zip(starts, ends, strict=True)
    )


def _opens(lines: Sequence[str], number: int) -> bool:
    """Return whether a line is the title of an article."""
    line = lines[number]
    if not _TITLE.fullmatch(line) or _DEEPER.fullmatch(line):
        return False
    around = (*lines[max(number - 1, 0) : number], *lines[number + 1 : number + 2])
    return not any(neighbour.strip() for neighbour in around)


def _text(lines: Sequence[str]) -> str:
    last = max(number for number, line in enumerate(lines) if line.strip())
    return "\n".join(lines[: last + 1])


def _read(split: str, data: Path | None) -> Sentences:
    """Read a published file, or the Hub's rows, which are the lines of the raw files."""
    if data is not None:
        return parse_wikitext(find_file("wikitext2", split, data, _names(split, data), FOLDERS))
    corpus = read_hub("wikitext2", split, (HUB,))
    # The Hub has dropped the blank of the lines that hold one alone.
    lines = [(sentence.text or "").removesuffix("\n") or " " for sentence in corpus.sentences]
    return replace(corpus, sentences=articles(corpus.where, corpus.unit, lines))


def _names(split: str, data: Path) -> list[str]:
    """Return file names of one form: with "<unk>" (tokens) if any is there, else raw.

    The splits of a folder that holds some files of each form must not come out mixed.
    """
    folders = [data, *(data / folder for folder in FOLDERS)]
    places = [str(folder / f"wiki.{name}") for folder in folders for name in NAMES.values()]
    there = [form for form in FORMS if any(Path(f"{path}.{form}").is_file() for path in places)]
    return [f"wiki.{NAMES[split]}.{form}" for form in there[:1] or FORMS]


def wikitext2() -> Task:
    """Return the task ``wikitext2``; what is to be predicted comes from the model's tokenizer."""
    return Task(
        name="wikitext2",
        metrics={"token": "perplexity"},
        splits=tuple(NAMES),
        kind="language-modelling",
        corpus=_read,
    )
