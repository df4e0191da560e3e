"""Universal Dependencies: parts of speech of one treebank."""

import difflib
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from probekit.base.kinds import SPLITS
from probekit.errors import HubError, MissingFileError, UnknownNameError
from probekit.tasks.corpora.published import Published
from probekit.tasks.formats.word_columns import parse_conllu
from probekit.tasks.hub_repository import HubRepository, list_configurations
from probekit.tasks.sentences import Sentences
from probekit.tasks.task import Task

COLUMNS = ("upos", "xpos", "deprel", "head")
REPO = "universal-dependencies/universal_dependencies"
# The published label names, in the Hub's order.
_UPOS = "NOUN PUNCT ADP NUM SYM SCONJ ADJ PART DET CCONJ PROPN PRON X _ ADV INTJ VERB AUX"
UPOS = tuple(_UPOS.split(" "))
_MOST = 5


class Treebank(Published):
    """The corpus of one treebank; one that is not there is told with those that are."""

    def __call__(self, split: str, data: Path | None) -> Sentences:
        """Read ``split`` from ``data``, or from the Hub.

        Raises:
            UnknownNameError: there are treebanks, and none has this name.
            MissingFileError: the folder, or the split's file, is not there.
            HubError: the Hub does not give it.
        """
        try:
            return super().__call__(split, data)
        except (MissingFileError, HubError) as error:
            name = self.task.removeprefix("ud/")
            known: list[str] = []
            with suppress(MissingFileError, HubError):
                known = treebanks(data)
            if not known or name in known:
                raise
            where = "on the Hub" if data is None else f"in {data}"
            listed = "`probekit tasks ud" + ("" if data is None else f" --data {data}") + "`"
            near = [f"ud/{other}" for other in _near(name, known)]
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise UnknownNameError(
                f"no treebank {name!r} {where}.{hint} {listed} lists the {len(known)} there."
            ) from error


def treebanks(data: Path | None) -> list[str]:
    """Return the names of the treebanks of a folder, or of the Hub.

    Raises:
        MissingFileError: there is no such folder, or no treebank in it.
        HubError: the Hub cannot be asked.
    """
    if data is None:
        return list_configurations(HubRepository(repo=REPO, labels={}))
    if not data.is_dir():
        raise MissingFileError(f"{data}: no such folder; give one with .conllu files.")
    names = sorted({file.name.partition("-ud-")[0] for file in data.glob("*-ud-*.conllu")})
    if not names:
        raise MissingFileError(f"{data}: no file is named like a treebank (NAME-ud-dev.conllu).")
    return names


def _near(name: str, known: Sequence[str]) -> list[str]:
    """Return the treebanks whose language or own name this is ("ewt"), else those like it."""
    parts = [treebank for treebank in known if name.lower() in treebank.lower().split("_")]
    near = difflib.get_close_matches(name.lower(), known, n=_MOST, cutoff=0.5)
    return parts[:_MOST] or near


def ud(treebank: str) -> Task:
    """Return the task ``ud/<treebank>`` ("ud/en_ewt")."""
    repository = HubRepository(
        repo=REPO,
        config=treebank,
        labels={column: column for column in COLUMNS},
        ids=("sent_id", "idx"),
        names={"upos": UPOS},
    )
    corpus = Treebank(
        task=f"ud/{treebank}",
        files={split: (f"{treebank}-ud-{split}.conllu",) for split in SPLITS},
        parse=partial(parse_conllu, columns=COLUMNS),
        obtain="https://universaldependencies.org",
        hub=(repository,),
    )
    return corpus.labelled(dict.fromkeys(COLUMNS, "accuracy"))
