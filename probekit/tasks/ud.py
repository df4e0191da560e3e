"""Universal Dependencies: parts of speech of one treebank."""

from functools import partial

from probekit.tasks.conllu import parse_conllu
from probekit.tasks.hub_source import HubSource
from probekit.tasks.published import Published
from probekit.tasks.types import Task

COLUMNS = ("upos", "xpos")
# The published label names, in the Hub's order.
_UPOS = "NOUN PUNCT ADP NUM SYM SCONJ ADJ PART DET CCONJ PROPN PRON X _ ADV INTJ VERB AUX"
UPOS = tuple(_UPOS.split(" "))


def ud(treebank: str) -> Task:
    """Return the task ``ud/<treebank>`` ("ud/en_ewt")."""
    name = f"ud/{treebank}"
    source = HubSource(
        repo="universal-dependencies/universal_dependencies",
        config=treebank,
        labels={"upos": "upos", "xpos": "xpos"},
        ids=("sent_id", "idx"),
        names={"upos": UPOS},
    )
    return Task(
        name=name,
        columns=COLUMNS,
        metrics=dict.fromkeys(COLUMNS, "accuracy"),
        splits=("train", "dev", "test"),
        source=Published(
            task=name,
            files={split: (f"{treebank}-ud-{split}.conllu",) for split in ("train", "dev", "test")},
            parse=partial(parse_conllu, columns=COLUMNS),
            obtain="https://universaldependencies.org",
            hub=(source,),
        ),
    )
