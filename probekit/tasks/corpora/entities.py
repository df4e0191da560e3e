"""Corpora of named entities: CoNLL-2003, WikiAnn, WNUT-17, and the one shipped with probekit."""

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

from probekit.base.kinds import SPLITS
from probekit.tasks.corpora.published import Published, find_file
from probekit.tasks.formats.word_columns import read_tagged
from probekit.tasks.hub_repository import HubRepository
from probekit.tasks.schemes import bio_names, iob1_to_bio
from probekit.tasks.sentences import Sentences
from probekit.tasks.task import Task

logger = logging.getLogger(__name__)

# Label names of the published loading scripts, in their order, for repositories of the Hub that
# kept the numbers alone.
CONLL_NER = bio_names("PER", "ORG", "LOC", "MISC")
_CONLL_POS = (
    "\" '' # $ ( ) , . : `` CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS NN|SYM PDT POS PRP "
    "PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB"
)
CONLL_POS = tuple(_CONLL_POS.split(" "))
_CONLL_CHUNK = bio_names(
    "ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP"
)
_WIKIANN_NER = bio_names("PER", "ORG", "LOC")
_WNUT_NER = bio_names("corporation", "creative-work", "group", "location", "person", "product")

_CONLL_HUB = HubRepository(
    repo="lhoestq/conll2003",
    labels={"ner": "ner_tags", "pos": "pos_tags", "chunk": "chunk_tags"},
    names={"ner": CONLL_NER, "pos": CONLL_POS, "chunk": _CONLL_CHUNK},
)
_DEMO = Path(__file__).parent / "demo"
_DEMO_FILES = {"train": ("train.conll",), "dev": ("dev.conll",)}


def conll() -> Task:
    """Return the task ``conll``: entities, parts of speech and chunks of English Reuters news."""
    corpus = Published(
        task="conll",
        files={
            "train": ("eng.train", "train.txt"),
            "dev": ("eng.testa", "valid.txt"),
            "test": ("eng.testb", "test.txt"),
        },
        parse=_parse_conll,
        obtain="https://www.clips.uantwerpen.be/conll2003/ner/",
        hub=(
            _CONLL_HUB,
            replace(_CONLL_HUB, repo="tomaarsen/conll2003"),
            replace(_CONLL_HUB, repo="eriktks/conll2003", revision="refs/convert/parquet"),
        ),
    )
    return corpus.labelled({"ner": "span-f1", "pos": "accuracy", "chunk": "span-f1"})


def _parse_conll(path: Path) -> Sentences:
    """Read ``word POS chunk NER`` rows; the chunk and NER tags of ``eng.*`` files are IOB1.

    Tags of other files (``train.txt``) are kept as written. Two columns are word and NER.

    Raises:
        DataError: the rows have another number of columns.
    """
    corpus = read_tagged(path, ("pos", "chunk", "ner"), ("ner",))
    for column in ("ner", "chunk") if path.name.startswith("eng.") else ():
        turned = {n: iob1_to_bio(tags) for n, tags in corpus.labels(column).items()}
        corpus = corpus.with_labels(column, turned)
    return corpus


def wikiann(language: str) -> Task:
    """Return ``wikiann/<language>``: silver entities of Wikipedia (Rahimi's splits)."""
    repository = HubRepository(
        repo="unimelb-nlp/wikiann",
        config=language,
        labels={"ner": "ner_tags"},
        names={"ner": _WIKIANN_NER},
    )
    corpus = Published(
        task=f"wikiann/{language}",
        files={split: (split,) for split in SPLITS},
        folders=(language,),
        parse=partial(_parse_wikiann, language=language),
        obtain="https://github.com/afshinrahimi/mmner",
        hub=(repository,),
    )
    return corpus.labelled({"ner": "span-f1"})


def _parse_wikiann(path: Path, *, language: str) -> Sentences:
    """Read ``lang:token<TAB>tag`` rows; the prefix ends at the first colon (a token may be ":").

    Raises:
        DataError: a row has not two columns, or another prefix.
    """
    corpus, prefix = read_tagged(path, ("ner",)), f"{language}:"
    sentences = []
    for sentence in corpus.sentences:
        for n, token in enumerate(sentence.words):
            if not token.startswith(prefix):
                raise corpus.fault(
                    sentence,
                    f"expected a token that starts with {prefix!r}, found {token!r}; is this the "
                    "folder of another language?",
                    n,
                )
        words = tuple(word.removeprefix(prefix) for word in sentence.words)
        sentences.append(replace(sentence, words=words))
    return replace(corpus, sentences=tuple(sentences))


def wnut17() -> Task:
    """Return the task ``wnut17``: emerging entities in noisy text (Derczynski et al., 2017)."""
    repository = HubRepository(
        repo="flaitenberger/wnut_17", labels={"ner": "ner_tags"}, names={"ner": _WNUT_NER}
    )
    corpus = Published(
        task="wnut17",
        files={
            "train": ("wnut17train.conll", "train.conll", "train.txt"),
            "dev": ("emerging.dev.conll", "dev.conll", "dev.txt"),
            # emerging.test.conll holds the answers of several annotators, joined by commas.
            "test": ("emerging.test.annotated", "emerging.test.conll", "test.conll", "test.txt"),
        },
        parse=_parse_wnut17,
        obtain="https://github.com/leondz/emerging_entities_17",
        hub=(repository,),
    )
    return corpus.labelled({"ner": "span-f1"})


def _parse_wnut17(path: Path) -> Sentences:
    """Read ``token<TAB>tag`` rows; a lone TAB divides sentences as an empty line does.

    Of tags joined by commas ("B-group,B-person": annotators who disagree) the first is taken,
    and a message says how many there were.

    Raises:
        DataError: the rows have another number of columns.
    """
    corpus = read_tagged(path, ("ner",))
    tags = corpus.labels("ner")
    joined = sum("," in tag for row in tags.values() for tag in row)
    if joined:
        logger.warning("%s: %d words have several tags; the first is used.", path, joined)
    first = {n: tuple(tag.partition(",")[0] for tag in row) for n, row in tags.items()}
    return corpus.with_labels("ner", first)


def demo_ner() -> Task:
    """Return the task ``demo-ner``: the corpus written for probekit, which ships inside it."""
    return Task(
        name="demo-ner", metrics={"ner": "span-f1"}, splits=tuple(_DEMO_FILES), corpus=_read_demo
    )


def _read_demo(split: str, data: Path | None) -> Sentences:
    """Read ``word<TAB>tag`` rows, of ``data`` or of the package."""
    corpus = read_tagged(find_file("demo-ner", split, data or _DEMO, _DEMO_FILES[split]), ("ner",))
    # Where the package is installed says nothing about the text.
    inside = f"{_DEMO_FILES[split][0]} in the package"
    return corpus if data is not None else replace(corpus, origin=inside)
