"""SentEval's ten probing tasks of single sentences (Conneau et al. 2018, arXiv 1805.01070)."""

from pathlib import Path

from probekit.base.registry import choose
from probekit.errors import DataError
from probekit.tasks.corpora.published import SplitsTogether
from probekit.tasks.formats.text_lines import read_lines, tab_cells
from probekit.tasks.sentences import Sentences, plain_text
from probekit.tasks.task import Task

SENTEVAL = (
    *("sentence_length", "word_content", "tree_depth", "top_constituents", "bigram_shift"),
    *("past_present", "subj_number", "obj_number", "odd_man_out", "coordination_inversion"),
)
_MARKS = {"train": "tr", "dev": "va", "test": "te"}


def senteval(name: str) -> Task:
    """Return the task ``senteval/<name>`` ("senteval/tree_depth")."""
    choose("SentEval task", name, dict.fromkeys(SENTEVAL))
    corpus = SplitsTogether(
        task=f"senteval/{name}",
        files=dict.fromkeys(_MARKS, (f"{name}.txt",)),
        parse=_parse,
        obtain="https://github.com/facebookresearch/SentEval, its folder data/probing",
    )
    return corpus.labelled({"label": "accuracy"}, kind="sentence")


def _parse(path: Path, split: str) -> Sentences:
    """Read the lines of a split: its mark, the label and the sentence, between TABs."""
    sentences = []
    for number, line in enumerate(read_lines(path), start=1):
        mark, label, text = tab_cells(path, number, line, 3)
        if mark not in _MARKS.values():
            raise DataError(f"{path}, line {number}: expected tr, va or te first, not {mark!r}.")
        if mark == _MARKS[split]:
            sentences.append(plain_text((text,), {"label": label}, number))
    return Sentences.of_file(path, sentences)
