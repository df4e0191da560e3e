"""GLUE: eight tasks of one or two sentences (Wang et al., 2019).

The published tables have TABs, no quoting, and a header in all files but two of CoLA.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from probekit.base.kinds import SPLITS, KindName
from probekit.base.registry import choose
from probekit.errors import DataError
from probekit.tasks.corpora.published import Published, read_table
from probekit.tasks.hub_repository import HubRepository
from probekit.tasks.schemes import is_number, score_name
from probekit.tasks.sentences import Sentence, Sentences, plain_text
from probekit.tasks.task import Task

OBTAIN = "https://gluebenchmark.com/tasks"
SCORES = (0.0, 5.0)
PAIR = ("sentence1", "sentence2")
QUESTIONS = ("question1", "question2")
ENTAILMENT = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True)
class GlueTask:
    """What sets one GLUE task apart.

    Attributes:
        folder: the folder of the files in the published archive.
        texts: the columns of its tables with the one or two texts.
        label: the column with the label.
        classes: the labels that there are; empty for the scores of STS-B.
        metric: GLUE's own; the first where it names two.
        headless: the columns of train and dev files without a header; empty where all have one.
        broken: leave short rows out, with a message; QQP has six, the halves of rows that a line
            break cuts in two, and everybody leaves them out.
        hub_texts: the Hub's columns with the texts; those of the tables unless they differ.
        hub_classes: the Hub's label names to those of the published files, where they differ.
        stems: split to the name of its file, without ".tsv".
        other_test: another name of the test file.
    """

    folder: str
    texts: tuple[str, ...]
    label: str = "label"
    classes: tuple[str, ...] = ("0", "1")
    metric: str = "accuracy"
    headless: tuple[str, ...] = ()
    broken: bool = False
    hub_texts: tuple[str, ...] = ()
    hub_classes: Mapping[str, str] = field(default_factory=dict)
    stems: Mapping[str, str] = field(default_factory=lambda: dict(zip(SPLITS, SPLITS, strict=True)))
    other_test: str = ""

    @property
    def files(self) -> dict[str, tuple[str, ...]]:
        """Split to the names that its file may have."""
        files = {split: (f"{stem}.tsv",) for split, stem in self.stems.items()}
        return files | ({"test": (*files["test"], self.other_test)} if self.other_test else {})

    @property
    def hub_splits(self) -> dict[str, str]:
        """Split to the Hub's name for it."""
        return {split: stem.replace("dev", "validation") for split, stem in self.stems.items()}

    @property
    def kind(self) -> KindName:
        """Sentence, pair or regression."""
        if not self.classes:
            return "regression"
        return "pair" if len(self.texts) == 2 else "sentence"


GLUE: Mapping[str, GlueTask] = {
    "cola": GlueTask(
        folder="CoLA",
        texts=("sentence",),
        metric="matthews",
        headless=("source", "label", "mark", "sentence"),
        hub_classes={"unacceptable": "0", "acceptable": "1"},
    ),
    "sst2": GlueTask(
        folder="SST-2", texts=("sentence",), hub_classes={"negative": "0", "positive": "1"}
    ),
    "mrpc": GlueTask(
        folder="MRPC",
        texts=("#1 String", "#2 String"),
        label="Quality",
        metric="f1",
        hub_texts=PAIR,
        hub_classes={"not_equivalent": "0", "equivalent": "1"},
        other_test="msr_paraphrase_test.txt",
    ),
    "qqp": GlueTask(
        folder="QQP",
        texts=QUESTIONS,
        label="is_duplicate",
        metric="f1",
        broken=True,
        hub_classes={"not_duplicate": "0", "duplicate": "1"},
    ),
    "stsb": GlueTask(folder="STS-B", texts=PAIR, label="score", classes=(), metric="spearman"),
    "mnli": GlueTask(
        folder="MNLI",
        texts=PAIR,
        label="gold_label",
        classes=("entailment", "neutral", "contradiction"),
        hub_texts=("premise", "hypothesis"),
        stems={
            "train": "train",
            "dev": "dev_matched",
            "dev-mm": "dev_mismatched",
            "test": "test_matched",
            "test-mm": "test_mismatched",
        },
    ),
    "qnli": GlueTask(folder="QNLI", texts=("question", "sentence"), classes=ENTAILMENT),
    "rte": GlueTask(folder="RTE", texts=PAIR, classes=ENTAILMENT),
}


def glue(name: str) -> Task:
    """Return the task ``glue/<name>`` ("glue/rte").

    ``--data`` may name the task's own folder or the one that holds the folders of all tasks. The
    labels are those of the published files, also when the Hub gives other names to them.

    Raises:
        UnknownNameError: GLUE has no such task.
    """
    about = choose("GLUE task", name, GLUE)
    repository = HubRepository(
        repo="nyu-mll/glue",
        config=name,
        texts=about.hub_texts or about.texts,
        labels={"label": "label"},
        names={"label": tuple(about.hub_classes) or about.classes},
        renamed={"label": about.hub_classes},
        splits=about.hub_splits,
    )
    corpus = Published(
        task=f"glue/{name}",
        files=about.files,
        folders=(about.folder, name),
        parse=partial(parse_glue, about=about),
        obtain=OBTAIN,
        hub=(repository,),
    )
    return corpus.labelled({"label": about.metric}, about.kind)


def parse_glue(path: Path, *, about: GlueTask) -> Sentences:
    """Read a GLUE table; a test file without the label's column has no labels.

    Raises:
        DataError: the header lacks a column, a row has another number of cells, or a label that
            the task does not have.
    """
    # A train file without labels is another task's, or damaged; only test files are unlabelled.
    is_test = "test" in path.stem
    needed = about.texts if is_test else (*about.texts, about.label)
    header = () if is_test else about.headless
    rows = read_table(path, needed, header=header, broken=about.broken)
    return Sentences.of_file(path, (_sentence(path, *row, about) for row in rows))


def _sentence(path: Path, number: int, row: Mapping[str, str], about: GlueTask) -> Sentence:
    texts = tuple(row[name] for name in about.texts)
    label = row.get(about.label)
    if label is None:
        return plain_text(texts, {}, number)
    if label in about.classes:
        return plain_text(texts, {"label": label}, number)
    if about.classes:
        raise DataError(
            f"{path}, line {number}: unknown label {label!r}; expected "
            f"{', '.join(about.classes)}. Is this the folder of another task?"
        )
    low, high = SCORES
    if not (is_number(label) and low <= float(label) <= high):
        raise DataError(
            f"{path}, line {number}: {label!r} is not a score from {low:g} to {high:g}."
        )
    return plain_text(texts, {"label": score_name(float(label))}, number)
