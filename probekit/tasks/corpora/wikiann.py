"""WikiAnn: silver entities (PER, ORG, LOC) of Wikipedia in many languages (Rahimi's splits)."""

from functools import partial
from pathlib import Path

from probekit.base.kinds import SPLITS
from probekit.errors import DataError
from probekit.tasks.corpora.published import Published, origin_of
from probekit.tasks.formats.word_columns import Block, read_blocks, width_of
from probekit.tasks.hub.repository import HubSource
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Task

# The published label names, in the Hub's order.
NER = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")
FILES = {split: (split,) for split in SPLITS}


def parse_wikiann(path: Path, *, language: str) -> Sentences:
    """Read ``lang:token<TAB>tag`` rows; the prefix ends at the first colon (a token may be ":").

    Raises:
        DataError: a row has not two columns, or another prefix.
    """
    blocks = read_blocks(path)
    width = width_of(blocks)
    if width not in (0, 2):
        line = blocks[0].lines[0]
        raise DataError(f"{path}, line {line}: expected 2 columns (token, tag), found {width}.")
    sentences = tuple(_sentence(path, block, f"{language}:") for block in blocks)
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def _sentence(path: Path, block: Block, prefix: str) -> Sentence:
    tokens = block.column(0)
    for line, token in zip(block.lines, tokens, strict=True):
        if not token.startswith(prefix):
            raise DataError(
                f"{path}, line {line}: expected a token that starts with {prefix!r}, found "
                f"{token!r}; is this the folder of another language?"
            )
    words = tuple(token.removeprefix(prefix) for token in tokens)
    return Sentence(words, {"ner": block.column(1)}, block.lines)


def wikiann(language: str) -> Task:
    """Return the task ``wikiann/<language>``."""
    name = f"wikiann/{language}"
    source = HubSource(
        repo="unimelb-nlp/wikiann",
        config=language,
        labels={"ner": "ner_tags"},
        names={"ner": NER},
    )
    return Task(
        name=name,
        columns=("ner",),
        metrics={"ner": "span-f1"},
        splits=tuple(FILES),
        source=Published(
            task=name,
            files=FILES,
            folders=(language,),
            parse=partial(parse_wikiann, language=language),
            obtain="https://github.com/afshinrahimi/mmner",
            hub=(source,),
        ),
    )
