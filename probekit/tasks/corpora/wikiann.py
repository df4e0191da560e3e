"""WikiAnn: silver entities (PER, ORG, LOC) of Wikipedia in many languages (Rahimi's splits)."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from probekit.base.kinds import SPLITS
from probekit.errors import DataError
from probekit.tasks.corpora.published import Published
from probekit.tasks.formats.word_columns import read_tagged
from probekit.tasks.hub_repository import HubRepository
from probekit.tasks.schemes import bio_names
from probekit.tasks.sentences import Sentence, Sentences
from probekit.tasks.task import Task

# The published label names, in the Hub's order.
NER = bio_names("PER", "ORG", "LOC")
FILES = {split: (split,) for split in SPLITS}


def parse_wikiann(path: Path, *, language: str) -> Sentences:
    """Read ``lang:token<TAB>tag`` rows; the prefix ends at the first colon (a token may be ":").

    Raises:
        DataError: a row has not two columns, or another prefix.
    """
    found = read_tagged(path, ("ner",))
    sentences = tuple(_without_prefix(found, one, f"{language}:") for one in found.sentences)
    return replace(found, sentences=sentences)


def _without_prefix(found: Sentences, sentence: Sentence, prefix: str) -> Sentence:
    for n, token in enumerate(sentence.words):
        if not token.startswith(prefix):
            raise DataError(
                f"{found.place(sentence, n)}: expected a token that starts with {prefix!r}, found "
                f"{token!r}; is this the folder of another language?"
            )
    return replace(sentence, words=tuple(word.removeprefix(prefix) for word in sentence.words))


def wikiann(language: str) -> Task:
    """Return the task ``wikiann/<language>``."""
    repository = HubRepository(
        repo="unimelb-nlp/wikiann", config=language, labels={"ner": "ner_tags"}, names={"ner": NER}
    )
    corpus = Published(
        task=f"wikiann/{language}",
        files=FILES,
        folders=(language,),
        parse=partial(parse_wikiann, language=language),
        obtain="https://github.com/afshinrahimi/mmner",
        hub=(repository,),
    )
    return corpus.labelled({"ner": "span-f1"})
