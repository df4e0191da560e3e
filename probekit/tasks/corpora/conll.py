"""CoNLL-2003 English: entities, parts of speech and chunks of Reuters news."""

from dataclasses import replace
from pathlib import Path

from probekit.errors import DataError
from probekit.tasks.bio import iob1_to_bio
from probekit.tasks.corpora.published import Published, origin_of
from probekit.tasks.formats.word_columns import Block, read_blocks, width_of
from probekit.tasks.hub.repository import HubSource
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Task

# The label names of the published loading script, in its order, for repositories that kept the
# numbers alone.
NER = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")
_POS = (
    "\" '' # $ ( ) , . : `` CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS NN|SYM PDT POS PRP "
    "PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB"
)
POS = tuple(_POS.split(" "))
_CHUNKS = ("ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP")
CHUNK = ("O", *(f"{prefix}-{kind}" for kind in _CHUNKS for prefix in "BI"))

_SOURCE = HubSource(
    repo="lhoestq/conll2003",
    labels={"ner": "ner_tags", "pos": "pos_tags", "chunk": "chunk_tags"},
    names={"ner": NER, "pos": POS, "chunk": CHUNK},
)
HUB = (
    _SOURCE,
    replace(_SOURCE, repo="tomaarsen/conll2003"),
    replace(_SOURCE, repo="eriktks/conll2003", revision="refs/convert/parquet"),
)
FILES = {
    "train": ("eng.train", "train.txt"),
    "dev": ("eng.testa", "valid.txt"),
    "test": ("eng.testb", "test.txt"),
}


def parse_conll(path: Path) -> Sentences:
    """Read ``word POS chunk NER`` rows; the chunk and NER tags of ``eng.*`` files are IOB1.

    Tags of other files (``train.txt``) are kept as written. Two columns are word and NER.

    Raises:
        DataError: the rows have another number of columns.
    """
    blocks = read_blocks(path)
    width = width_of(blocks)
    if width not in (0, 2, 4):
        raise DataError(
            f"{path}, line {blocks[0].lines[0]}: expected 4 columns (word, POS, chunk, NER) or 2 "
            f"(word, NER), found {width}."
        )
    sentences = tuple(_sentence(block, width, path.name.startswith("eng.")) for block in blocks)
    return Sentences(sentences=sentences, where=str(path), origin=origin_of(path))


def _sentence(block: Block, width: int, iob1: bool) -> Sentence:
    labels = {"ner": block.column(-1)}
    if width == 4:
        labels |= {"pos": block.column(1), "chunk": block.column(2)}
    if iob1:
        labels |= {name: iob1_to_bio(labels[name]) for name in ("ner", "chunk") if name in labels}
    return Sentence(block.column(0), labels, block.lines)


def conll() -> Task:
    """Return the task ``conll``."""
    return Task(
        name="conll",
        columns=("ner", "pos", "chunk"),
        metrics={"ner": "span-f1", "pos": "accuracy", "chunk": "span-f1"},
        splits=tuple(FILES),
        source=Published(
            task="conll",
            files=FILES,
            parse=parse_conll,
            obtain="https://www.clips.uantwerpen.be/conll2003/ner/",
            hub=HUB,
        ),
    )
