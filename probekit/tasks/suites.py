"""Suites: tasks that are run together, how, and what others have published of them.

To add a suite to probekit, add a `Suite` to ``SUITES``; its tasks are those of ``TASKS``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from probekit.errors import MissingFileError
from probekit.tasks import variants_of


@dataclass(frozen=True, kw_only=True)
class SuiteTask:
    """One task of a suite.

    Attributes:
        name: as ``probekit train`` takes it.
        label: its label column; None is the task's default.
        data: the folder of its files.
    """

    name: str
    label: str | None = None
    data: Path | None = None

    @property
    def text(self) -> str:
        """Task and label in words."""
        return f"{self.name} {self.label}" if self.label else self.name


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tasks that are run together.

    Attributes:
        summary: one line for people.
        tasks: returns them, given the folder of their files.
        metric: what its tables show; None is the metric of its tasks.
        averaged: whether tables average its tasks; else each has a column.
        pooling: the row of a text that is read; None of words.
        options: others of ``TrainSpec``.
        max_length: most subwords of a text, where the model reads as many; None is no bound.
        n_tasks: how many there are, where others have published a mean over all of them.
        published: these means, in percent, by model and layer.
        source: where these are from, and in what they differ.
    """

    summary: str
    tasks: Callable[[Path | None], list[SuiteTask]]
    metric: str | None = None
    averaged: bool = True
    pooling: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    max_length: int | None = None
    n_tasks: int = 0
    published: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    source: str = ""


def _family(name: str, data: Path | None) -> list[SuiteTask]:
    """Return all tasks of a family of ``TASKS``."""
    return [SuiteTask(name=task, data=data) for task in variants_of(name, data)]


def _edges(data: Path | None) -> list[SuiteTask]:
    """Return what is labelled in UD English-EWT, CoNLL-2003 and edge-probing JSON, if there.

    Raises:
        MissingFileError: none is.
    """
    folders = (
        [] if data is None else [data, *sorted(path for path in data.glob("*") if path.is_dir())]
    )
    tasks = []
    for folder in folders:
        if (folder / "en_ewt-ud-train.conllu").is_file():
            tasks += [
                SuiteTask(name="ud/en_ewt", label=label, data=folder)
                for label in ("upos", "arcs:deprel")
            ]
        if any((folder / f"{name}").is_file() for name in ("eng.train", "train.txt")):
            tasks.append(SuiteTask(name="conll", label="spans:ner", data=folder))
        if (folder / "train.jsonl").is_file():
            tasks.append(SuiteTask(name=str(folder)))
    if not tasks:
        raise MissingFileError(
            "suite edges: no en_ewt-ud-train.conllu, eng.train or train.jsonl. Give --data DIR, "
            "the folder above those of UD English-EWT, CoNLL-2003 and edge-probing JSON."
        )
    return tasks


SUITES: Mapping[str, Suite] = {
    "sae-probes": Suite(
        summary="113 binary tasks of texts, by their last token",
        tasks=partial(_family, "sae-probes"),
        metric="auroc",
        pooling="last",
        max_length=1024,
        n_tasks=113,
        published={
            "gemma-2-9b": {0: 68.9, 9: 92.2, 20: 94.1, 31: 93.8, 41: 93.8},
            "llama-3.1-8b": {16: 94.0},
        },
        source="Kantamneni et al. 2025, results of logistic regression; 0 is the embeddings",
    ),
    "sae-probes-ood": Suite(
        summary="eight tasks of sae-probes, tested on texts from another source",
        tasks=partial(_family, "sae-probes-ood"),
        metric="auroc",
        pooling="last",
        max_length=1024,
    ),
    "senteval": Suite(
        summary="SentEval's ten probing tasks, by the mean of the tokens",
        tasks=partial(_family, "senteval"),
        pooling="mean",
        n_tasks=10,
        published={
            "bert-base-uncased": dict(
                enumerate(
                    (
                        *(65.98, 69.15, 71.66, 73.67, 74.00, 74.31, 74.57),
                        *(75.13, 74.59, 73.78, 72.17, 71.31, 69.72),
                    )
                )
            )
        },
        source="github.com/jklj077/senteval-info, SentEval's own classifier on 100,000 sentences",
    ),
    "blimp": Suite(
        summary="67 sets of 1,000 pairs, of which one sentence is acceptable",
        tasks=partial(_family, "blimp"),
        pooling="mean",
        options={"group": "pair"},
    ),
    "truth": Suite(
        summary="true and false statements, each set tested on its negation",
        tasks=partial(_family, "truth"),
        metric="auroc",
        pooling="last",
        options={"hold_out": 0.2},
    ),
    "edges": Suite(
        summary="parts of speech and arcs of UD English-EWT, entities of CoNLL-2003, your spans",
        tasks=_edges,
        averaged=False,
    ),
}


def published_lines(tasks: Collection[str], metric: str) -> list[str]:
    """Return what others have published of a suite, in words.

    Args:
        tasks: all that are averaged; nothing is said of a part of a suite.
        metric: what is averaged; nothing is said of another metric.
    """
    names = {task.partition("/")[0] for task in tasks}
    suite = SUITES.get(names.pop()) if len(names) == 1 else None
    same = suite is not None and metric == (suite.metric or "accuracy")
    if suite is None or not suite.published or not same or len(tasks) != suite.n_tasks:
        return []
    lines = [
        f"published, {model}: {', '.join(f'layer {n} {score:.1f}' for n, score in scores.items())}"
        for model, scores in suite.published.items()
    ]
    return [*lines, f"published by {suite.source}"]
