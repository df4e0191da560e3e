"""CoNLL-2003 English: entities, parts of speech and chunks of Reuters news."""

from dataclasses import replace
from pathlib import Path

from probekit.tasks.corpora.published import Published
from probekit.tasks.formats.word_columns import read_tagged
from probekit.tasks.hub_repository import HubRepository
from probekit.tasks.schemes import bio_names, iob1_to_bio
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Task

# The label names of the published loading script, in its order, for repositories that kept the
# numbers alone.
NER = bio_names("PER", "ORG", "LOC", "MISC")
_POS = (
    "\" '' # $ ( ) , . : `` CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS NN|SYM PDT POS PRP "
    "PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB"
)
POS = tuple(_POS.split(" "))
CHUNK = bio_names("ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP")

_REPOSITORY = HubRepository(
    repo="lhoestq/conll2003",
    labels={"ner": "ner_tags", "pos": "pos_tags", "chunk": "chunk_tags"},
    names={"ner": NER, "pos": POS, "chunk": CHUNK},
)
HUB = (
    _REPOSITORY,
    replace(_REPOSITORY, repo="tomaarsen/conll2003"),
    replace(_REPOSITORY, repo="eriktks/conll2003", revision="refs/convert/parquet"),
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
    found = read_tagged(path, ("pos", "chunk", "ner"), ("ner",))
    if not path.name.startswith("eng."):
        return found
    return replace(found, sentences=tuple(map(_in_bio, found.sentences)))


def _in_bio(sentence: Sentence) -> Sentence:
    labels = sentence.labels
    turned = {name: iob1_to_bio(labels[name]) for name in ("ner", "chunk") if name in labels}
    return replace(sentence, labels={**labels, **turned})


def conll() -> Task:
    """Return the task ``conll``."""
    corpus = Published(
        task="conll",
        files=FILES,
        parse=parse_conll,
        obtain="https://www.clips.uantwerpen.be/conll2003/ner/",
        hub=HUB,
    )
    return corpus.labelled({"ner": "span-f1", "pos": "accuracy", "chunk": "span-f1"})
