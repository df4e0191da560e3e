"""GLUE: eight tasks of one or two sentences (Wang et al., 2019)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from probekit.base.kinds import HUB_SPLITS, SPLITS, KindName
from probekit.base.registry import choose
from probekit.tasks.corpora.glue_tables import Table, parse_glue
from probekit.tasks.corpora.published import Published
from probekit.tasks.hub.repository import HubSource
from probekit.tasks.task import Task

OBTAIN = "https://gluebenchmark.com/tasks"
FILES = {split: (f"{split}.tsv",) for split in SPLITS}
ENTAILMENT = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True)
class GlueTask:
    """What sets one GLUE task apart.

    Attributes:
        kind: sentence, pair or regression.
        metric: GLUE's own; the first where it names two.
        table: the layout of the published files.
        folder: the folder of the files in the published archive.
        hub_texts: the Hub's columns with the texts.
        hub_classes: the Hub's label names to those of the published files, where they differ.
        files: split to file names.
        hub_splits: split to the Hub's name for it.
    """

    kind: KindName
    metric: str
    table: Table
    folder: str
    hub_texts: tuple[str, ...]
    hub_classes: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: FILES)
    hub_splits: Mapping[str, str] = field(default_factory=lambda: HUB_SPLITS)


PAIR = ("sentence1", "sentence2")
QUESTIONS = ("question1", "question2")

GLUE: Mapping[str, GlueTask] = {
    "cola": GlueTask(
        kind="sentence",
        metric="matthews",
        table=Table(
            texts=("sentence",),
            label="label",
            classes=("0", "1"),
            headless=("source", "label", "mark", "sentence"),
        ),
        folder="CoLA",
        hub_texts=("sentence",),
        hub_classes={"unacceptable": "0", "acceptable": "1"},
    ),
    "sst2": GlueTask(
        kind="sentence",
        metric="accuracy",
        table=Table(texts=("sentence",), label="label", classes=("0", "1")),
        folder="SST-2",
        hub_texts=("sentence",),
        hub_classes={"negative": "0", "positive": "1"},
    ),
    "mrpc": GlueTask(
        kind="pair",
        metric="f1",
        table=Table(texts=("#1 String", "#2 String"), label="Quality", classes=("0", "1")),
        folder="MRPC",
        hub_texts=PAIR,
        hub_classes={"not_equivalent": "0", "equivalent": "1"},
        files=FILES | {"test": ("test.tsv", "msr_paraphrase_test.txt")},
    ),
    "qqp": GlueTask(
        kind="pair",
        metric="f1",
        table=Table(texts=QUESTIONS, label="is_duplicate", classes=("0", "1"), broken=True),
        folder="QQP",
        hub_texts=QUESTIONS,
        hub_classes={"not_duplicate": "0", "duplicate": "1"},
    ),
    "stsb": GlueTask(
        kind="regression",
        metric="spearman",
        table=Table(texts=PAIR, label="score"),
        folder="STS-B",
        hub_texts=PAIR,
    ),
    "mnli": GlueTask(
        kind="pair",
        metric="accuracy",
        table=Table(
            texts=PAIR, label="gold_label", classes=("entailment", "neutral", "contradiction")
        ),
        folder="MNLI",
        hub_texts=("premise", "hypothesis"),
        files={
            "train": ("train.tsv",),
            "dev": ("dev_matched.tsv",),
            "dev-mm": ("dev_mismatched.tsv",),
            "test": ("test_matched.tsv",),
            "test-mm": ("test_mismatched.tsv",),
        },
        hub_splits={
            "train": "train",
            "dev": "validation_matched",
            "dev-mm": "validation_mismatched",
            "test": "test_matched",
            "test-mm": "test_mismatched",
        },
    ),
    "qnli": GlueTask(
        kind="pair",
        metric="accuracy",
        table=Table(texts=("question", "sentence"), label="label", classes=ENTAILMENT),
        folder="QNLI",
        hub_texts=("question", "sentence"),
    ),
    "rte": GlueTask(
        kind="pair",
        metric="accuracy",
        table=Table(texts=PAIR, label="label", classes=ENTAILMENT),
        folder="RTE",
        hub_texts=PAIR,
    ),
}


def glue(name: str) -> Task:
    """Return the task ``glue/<name>`` ("glue/rte").

    ``--data`` may name the task's own folder or the one that holds the folders of all tasks. The
    labels are those of the published files, also when the Hub gives other names to them.

    Raises:
        UnknownNameError: GLUE has no such task.
    """
    about = choose("GLUE task", name, GLUE)
    source = HubSource(
        repo="nyu-mll/glue",
        config=name,
        texts=about.hub_texts,
        labels={"label": "label"},
        numbers=("label",) if about.kind == "regression" else (),
        names={"label": tuple(about.hub_classes) or about.table.classes},
        renamed={"label": about.hub_classes},
        splits=about.hub_splits,
    )
    return Task(
        name=f"glue/{name}",
        columns=("label",),
        metrics={"label": about.metric},
        splits=tuple(about.files),
        kind=about.kind,
        source=Published(
            task=f"glue/{name}",
            files=about.files,
            folders=(about.folder, name),
            parse=partial(parse_glue, table=about.table),
            obtain=OBTAIN,
            hub=(source,),
        ),
    )
