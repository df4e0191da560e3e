"""WNUT-17: novel and emerging entities in noisy text (Derczynski et al., 2017)."""

import logging
from pathlib import Path

from probekit.tasks.corpora.published import Published
from probekit.tasks.formats.word_columns import read_tagged
from probekit.tasks.hub_repository import HubRepository
from probekit.tasks.schemes import bio_names
from probekit.tasks.sentences import Sentences
from probekit.tasks.task import Task

logger = logging.getLogger(__name__)

# The published label names, in the Hub's order.
NER = bio_names("corporation", "creative-work", "group", "location", "person", "product")
FILES = {
    "train": ("wnut17train.conll", "train.conll", "train.txt"),
    "dev": ("emerging.dev.conll", "dev.conll", "dev.txt"),
    # emerging.test.conll holds the answers of several annotators, joined by commas.
    "test": ("emerging.test.annotated", "emerging.test.conll", "test.conll", "test.txt"),
}
HUB = (HubRepository(repo="flaitenberger/wnut_17", labels={"ner": "ner_tags"}, names={"ner": NER}),)


def parse_wnut17(path: Path) -> Sentences:
    """Read ``token<TAB>tag`` rows; a lone TAB divides sentences as an empty line does.

    Of tags joined by commas ("B-group,B-person": annotators who disagree) the first is taken,
    and a message says how many there were.

    Raises:
        DataError: the rows have another number of columns.
    """
    found = read_tagged(path, ("ner",))
    tags = found.labels("ner")
    joined = sum("," in tag for own in tags.values() for tag in own)
    if joined:
        logger.warning("%s: %d words have several tags; the first is taken.", path, joined)
    first = {n: tuple(tag.partition(",")[0] for tag in own) for n, own in tags.items()}
    return found.with_labels("ner", first)


def wnut17() -> Task:
    """Return the task ``wnut17``."""
    corpus = Published(
        task="wnut17",
        files=FILES,
        parse=parse_wnut17,
        obtain="https://github.com/leondz/emerging_entities_17",
        hub=HUB,
    )
    return corpus.labelled({"ner": "span-f1"})
