"""Families of sets of single sentences, read from published files alone.

- SentEval's ten probing tasks (Conneau et al. 2018, arXiv 1805.01070).
- BLiMP: 67 sets of 1,000 pairs of sentences, one of which is acceptable (Warstadt et al. 2020). It
  has no splits. Here the first 600 pairs of a set are train, the next 200 dev, the others test.
- True and false statements (Marks & Tegmark 2024, arXiv 2310.06824), read on their negations.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from probekit.base.registry import choose
from probekit.errors import DataError, MissingFileError, reason_of
from probekit.tasks.corpora.published import Published, SplitsTogether
from probekit.tasks.formats.text_lines import read_lines, tab_cells
from probekit.tasks.sentences import Sentences, plain_text
from probekit.tasks.task import Task

SENTEVAL = (
    *("sentence_length", "word_content", "tree_depth", "top_constituents", "bigram_shift"),
    *("past_present", "subj_number", "obj_number", "odd_man_out", "coordination_inversion"),
)
_MARKS = {"train": "tr", "dev": "va", "test": "te"}

PAIRS = {"train": range(600), "dev": range(600, 800), "test": range(800, 1000)}
"""The pairs of each split, in the order of the file."""

OBTAIN = "https://github.com/alexwarstadt/blimp, its folder data"

_NEGATED = {
    "cities": "neg_cities",
    "sp_en_trans": "neg_sp_en_trans",
    "larger_than": "smaller_than",
}
TRUTH: Mapping[str, str] = _NEGATED | {other: name for name, other in _NEGATED.items()}
"""Each set, and the set of its negations, which is its test split."""


def senteval(name: str) -> Task:
    """Return the task ``senteval/<name>`` ("senteval/tree_depth")."""
    choose("SentEval task", name, dict.fromkeys(SENTEVAL))
    corpus = SplitsTogether(
        task=f"senteval/{name}",
        files=dict.fromkeys(_MARKS, (f"{name}.txt",)),
        parse=_parse_senteval,
        obtain="https://github.com/facebookresearch/SentEval, its folder data/probing",
    )
    return corpus.labelled({"label": "accuracy"}, kind="sentence")


def _parse_senteval(path: Path, split: str) -> Sentences:
    """Read the lines of a split: its mark, the label and the sentence, between TABs."""
    sentences = []
    for number, line in enumerate(read_lines(path), start=1):
        mark, label, text = tab_cells(path, number, line, 3)
        if mark not in _MARKS.values():
            raise DataError(f"{path}, line {number}: expected tr, va or te first, not {mark!r}.")
        if mark == _MARKS[split]:
            sentences.append(plain_text((text,), {"label": label}, number))
    return Sentences.of_file(path, sentences)


def blimp(name: str) -> Task:
    """Return the task ``blimp/<name>`` ("blimp/wh_island"); both sentences share a ``pair``."""
    corpus = SplitsTogether(
        task=f"blimp/{name}",
        files=dict.fromkeys(PAIRS, (f"{name}.jsonl",)),
        parse=_parse_blimp,
        obtain=OBTAIN,
    )
    return corpus.labelled({"acceptable": "accuracy"}, kind="sentence")


def blimp_sets(data: Path | None) -> list[str]:
    """Return the names of the sets of a folder.

    Raises:
        MissingFileError: there is none.
    """
    names = [] if data is None else sorted(path.stem for path in data.glob("*.jsonl"))
    if not names:
        raise MissingFileError(f"no sets of BLiMP (*.jsonl). Give --data DIR: {OBTAIN}.")
    return names


def _parse_blimp(path: Path, split: str) -> Sentences:
    sentences = []
    for number, line in enumerate(read_lines(path), start=1):
        if number - 1 not in PAIRS[split]:
            continue
        try:
            pair = json.loads(line)
            texts = {"yes": str(pair["sentence_good"]), "no": str(pair["sentence_bad"])}
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}, line {number}: not a pair of BLiMP ({error!r}).") from None
        for label, text in texts.items():
            labels, groups = {"acceptable": label}, {"pair": f"{number}"}
            id = f"{number}-{label}"
            sentences.append(plain_text((text,), labels, number, id, groups=groups))
    return Sentences.of_file(path, sentences)


def truth(name: str) -> Task:
    """Return the task ``truth/<name>`` ("truth/cities"): its test is the negation of train."""
    negated = choose("set of statements", name, TRUTH)
    corpus = Published(
        task=f"truth/{name}",
        files={"train": (f"{name}.csv",), "test": (f"{negated}.csv",)},
        parse=_parse_truth,
        obtain="https://github.com/saprmarks/geometry-of-truth, its folder datasets",
    )
    return corpus.labelled({"label": "accuracy"}, kind="sentence")


def _parse_truth(path: Path) -> Sentences:
    import pandas

    try:
        table = pandas.read_csv(path, dtype=str, keep_default_na=False)
        rows = zip(table["statement"].tolist(), table["label"].tolist(), strict=True)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: not a table of statements ({reason_of(error)}).") from error
    names = {"0": "false", "1": "true"}
    sentences = []
    for number, (text, label) in enumerate(rows, start=2):
        if label not in names:
            raise DataError(f"{path}, row {number}: expected the label 0 or 1, not {label!r}.")
        sentences.append(plain_text((text,), {"label": names[label]}, number))
    return Sentences.of_file(path, sentences)
