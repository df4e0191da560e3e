"""WNUT-17: novel and emerging entities in noisy text (Derczynski et al., 2017)."""

import logging
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.corpora.published import Published, origin_of
from probekit.tasks.formats.word_columns import Block, read_blocks, width_of
from probekit.tasks.hub.repository import HubSource
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Task

logger = logging.getLogger(__name__)

# The published label names, in the Hub's order.
NER = (
    "O",
    *(
        f"{prefix}-{kind}"
        for kind in ("corporation", "creative-work", "group", "location", "person", "product")
        for prefix in "BI"
    ),
)
FILES = {
    "train": ("wnut17train.conll", "train.conll", "train.txt"),
    "dev": ("emerging.dev.conll", "dev.conll", "dev.txt"),
    # emerging.test.conll holds the answers of several annotators, joined by commas.
    "test": ("emerging.test.annotated", "emerging.test.conll", "test.conll", "test.txt"),
}
HUB = (HubSource(repo="flaitenberger/wnut_17", labels={"ner": "ner_tags"}, names={"ner": NER}),)


def parse_wnut17(path: Path) -> Sentences:
    """Read ``token<TAB>tag`` rows; a lone TAB divides sentences as an empty line does.

    Of tags joined by commas ("B-group,B-person": annotators who disagree) the first is taken,
    and a message says how many there were.

    Raises:
        DataError: the rows have another number of columns.
    """
    blocks = read_blocks(path)
    width = width_of(blocks)
    if width not in (0, 2):
        line = blocks[0].lines[0]
        raise DataError(f"{path}, line {line}: expected 2 columns (token, tag), found {width}.")
    joined = sum("," in tag for block in blocks for tag in block.column(1))
    if joined:
        logger.warning("%s: %d words have several tags; the first is taken.", path, joined)
    sentences = tuple(_sentence(block) for block in blocks)
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def _sentence(block: Block) -> Sentence:
    tags = tuple(tag.partition(",")[0] for tag in block.column(1))
    return Sentence(block.column(0), {"ner": tags}, block.lines)


def wnut17() -> Task:
    """Return the task ``wnut17``."""
    return Task(
        name="wnut17",
        columns=("ner",),
        metrics={"ner": "span-f1"},
        splits=tuple(FILES),
        source=Published(
            task="wnut17",
            files=FILES,
            parse=parse_wnut17,
            obtain="https://github.com/leondz/emerging_entities_17",
            hub=HUB,
        ),
    )
