"""Whose scores are shown: the best on dev or the same on test, whole and by class."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import numpy as np

from probekit.base.registry import choose
from probekit.base.selection import HELD_OUT, Selection
from probekit.errors import OptionError, RecordError
from probekit.metrics import METRICS
from probekit.results.record import Record
from probekit.results.summaries.grouping import check_seeds
from probekit.results.summaries.interval import Interval, interval

K = TypeVar("K", bound=Hashable)
Scored = Literal["dev", "test"]

SCORE_OF: dict[str, Literal["eval_score", "test_score"]] = {
    "dev": "eval_score",
    "test": "test_score",
}
"""The field of a record that holds the score on each split."""

Score = Literal["eval_score", "eval_last", "test_score"]

SCORE_TEXT = {"eval_score": "dev best", "eval_last": "dev last", "test_score": "test"}
"""What tables call the scores."""


def score_on(record: Record, split: str, metric: str | None = None) -> float | None:
    """Return a record's score on ``dev``, ``test`` or another split, if it has one.

    Args:
        record: whose score.
        split: the split.
        metric: name of the score; None is the metric of the record.
    """
    if split in SCORE_OF and metric in (None, record.metric):
        return record.test_score if split == "test" else record.eval_score
    return record.scores.get(f"{split}/{metric or record.metric}")


@dataclass(frozen=True, kw_only=True)
class Rescored(Record):
    """A record in another metric than its run was trained for, as tables and figures show it.

    Its curve of training is left out, whose points are in the metric of the run.

    Attributes:
        trained: the record of the run.
    """

    trained: Record


def scored_by(records: Sequence[Record], metric: str | None) -> Sequence[Record]:
    """Return records as another of their scores has them, for tables and figures of that.

    Args:
        records: any.
        metric: a name of ``METRICS``; None returns them as they are.

    Raises:
        UnknownNameError: there is no such metric.
        RecordError: a record has no such score on dev.
    """
    if metric is None:
        return records
    choose("metric", metric, METRICS)
    return [record if record.metric == metric else _rescored(record, metric) for record in records]


def _rescored(record: Record, metric: str) -> Rescored:
    dev, test = (score_on(record, split, metric) for split in SCORE_OF)
    if dev is None:
        raise RecordError(
            f"{record.model}, {record.task}, {record.head}, seed {record.seed}: the record has no "
            f"{metric}. Scores of probabilities need training with --predictions."
        )
    held = {field.name: getattr(record, field.name) for field in fields(record)}
    scores = {"eval_score": dev, "eval_last": dev, "test_score": test}
    return Rescored(**held | scores | {"metric": metric, "curve": (), "trained": record})


def reported_split(records: Sequence[Record]) -> Scored:
    """Return test, which chose nothing, where all of some records have a score there, else dev."""
    tested = [record.test_score is not None for record in records]
    return "test" if tested and all(tested) else "dev"


def shown(records: Sequence[Record], split: Scored | None) -> tuple[list[Record], Scored]:
    """Return the records with a score on a split, and the split: unset the reported one.

    Raises:
        UnknownNameError: there is no such split.
        RecordError: there were records, and none of them has a score there.
    """
    split = split or reported_split(records)
    field = choose("split", split, SCORE_OF)
    scored = [record for record in records if getattr(record, field) is not None]
    if records and not scored:
        raise RecordError(
            f"none of {len(records)} records has a {split} score; extract the {split} split "
            "(--split) and train again."
        )
    return scored, split


def has_two_scores(records: Sequence[Record]) -> bool:
    """Say whether the best and the last dev score are two things in some of the records.

    They are where they differ, and where descent chose its checkpoint on dev, so that they might
    have. A solver's fit, or one whose last step is what is kept, has one dev score; so has every
    run in another metric than its own, which was not measured at the last step.
    """
    return any(
        record.eval_last != record.eval_score
        or (record.epochs is not None and Selection.recorded(record.select) == Selection("dev"))
        for record in records
        if not isinstance(record, Rescored)
    )


def followed(record: Record) -> str:
    """Return what the scores of a learning curve are of: dev, or held-out sentences."""
    chosen_by = Selection.recorded(record.select)
    apart = chosen_by is not None and chosen_by.kind in (HELD_OUT, "hold-out")
    return "held-out" if apart else "dev"


def mean_values(
    group: Sequence[Record], values: Callable[[Record], Mapping[K, float]], what: str
) -> dict[K, Interval]:
    """Return the mean of every value over the seeds of one setting that have it.

    Args:
        group: records that differ in their seed alone.
        values: a record to what it holds, by layer or class.
        what: the setting in words, for the message.

    Raises:
        RecordError: a seed occurs twice.
    """
    check_seeds(group, what)
    by_key: dict[K, list[float]] = {}
    for record in group:
        for key, value in values(record).items():
            by_key.setdefault(key, []).append(value)
    return {key: interval(each) for key, each in by_key.items()}


def class_order(name: str) -> tuple[bool, str, str]:
    """Return a key that sorts classes: tags by their type, ``O`` last."""
    prefix, hyphen, kind = name.partition("-")
    tagged = bool(hyphen) and len(prefix) == 1
    return (name == "O", kind if tagged else name, prefix if tagged else "")


def class_scores(record: Record, split: Scored) -> dict[str, float]:
    """Return the F1 of every class: of spans by type, else of rows after the confusion on dev."""
    start = f"{split}/f1/"
    scores = {
        name.removeprefix(start): score
        for name, score in record.scores.items()
        if name.startswith(start)
    }
    if scores or record.confusion is None or split != "dev":
        return scores
    names, counts = total_confusion([record])
    right, gold, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    f1 = 2 * right / np.maximum(gold + predicted, 1)
    return {name: float(score) for name, score in zip(names, f1, strict=True)}


def mean_class_scores(records: Sequence[Record], split: Scored, what: str) -> dict[str, Interval]:
    """Return the mean F1 of every class over the seeds of one setting.

    Raises:
        RecordError: a seed occurs twice.
    """
    means = mean_values(records, lambda record: class_scores(record, split), what)
    return {name: means[name] for name in sorted(means, key=class_order)}


def mean_class_weights(records: Sequence[Record], what: str) -> dict[str, dict[int, float]]:
    """Return every layer's mean weight for each gold class, over the seeds of one setting.

    Raises:
        RecordError: a seed occurs twice.
    """
    means: dict[str, dict[int, float]] = {}
    by_place = mean_values(records, _class_layer_weights, what)
    for name, layer in sorted(by_place, key=lambda place: (class_order(place[0]), place[1])):
        means.setdefault(name, {})[layer] = by_place[name, layer].mean
    return means


def _class_layer_weights(record: Record) -> dict[tuple[str, int], float]:
    by_class = record.class_weights.items()
    return {(name, n): weight for name, of_class in by_class for n, weight in of_class.items()}


def total_confusion(records: Sequence[Record]) -> tuple[list[str], np.ndarray]:
    """Return the classes of some records, and their counts (gold, predicted) added up.

    Raises:
        RecordError: one of them holds no confusion.
    """
    tables: list[Mapping[str, Any]] = []
    for record in records:
        if record.confusion is None:
            raise RecordError(f"{record.head}, seed {record.seed}: this record holds no confusion.")
        tables.append(record.confusion)
    sides = {name for table in tables for name in (*table["rows"], *table["columns"])}
    names = sorted(sides, key=class_order)
    counts = np.zeros((len(names), len(names)))
    for table in tables:
        rows, columns = (list(map(names.index, table[side])) for side in ("rows", "columns"))
        if rows and columns:
            counts[np.ix_(rows, columns)] += np.array(table["counts"])
    return names, counts


def class_support(records: Sequence[Record], names: Collection[str]) -> dict[str, int]:
    """Return how many gold rows of dev some classes have, the mean over records with a confusion.

    Of a type of spans these are its spans: the rows that begin one (``B-``, ``S-``, ``U-``), or all
    of its rows under a scheme that does not mark beginnings. Classes that no confusion has are left
    out.
    """
    held = [record for record in records if record.confusion is not None]
    if not held:
        return {}
    classes, counts = total_confusion(held)
    rows = dict(zip(classes, counts.sum(1) / len(held), strict=True))
    support = {}
    for name in names:
        tags = ([name], [f"{mark}-{name}" for mark in "BSU"], [f"I-{name}"])
        known = ([rows[tag] for tag in some if tag in rows] for some in tags)
        if found := next(filter(None, known), None):
            support[name] = round(sum(found))
    return support


def by_support(names: Collection[str], support: Mapping[str, int]) -> list[str]:
    """Return classes with the most gold rows first; those without a number last, by name."""
    return sorted(names, key=lambda name: (-support.get(name, -1), class_order(name)))


def support_text(name: str, support: Mapping[str, int]) -> str:
    """Return a class with its number of gold rows, such as ``PER (1,842)``."""
    return f"{name} ({support[name]:,})" if name in support else name


def check_classes(classes: Sequence[str], held: Collection[str]) -> None:
    """Raise OptionError, with the classes that there are, if one of ``classes`` was not found."""
    if unknown := set(classes).difference(held):
        raise OptionError(
            f"no class {', '.join(sorted(unknown))} in these records; choose from "
            f"{', '.join(sorted(held, key=class_order))}."
        )


def most_confused(counts: np.ndarray, most: int) -> list[int]:
    """Return the places of the classes that stay where all others become one, ``most`` in all.

    Those are merged that are taken for others least often: what counts is how many rows of a class
    are taken for another one, and how many of others for it.

    Args:
        counts: rows by gold and predicted class.
        most: how many are left.
    """
    if len(counts) <= most:
        return list(range(len(counts)))
    wrong = counts - np.diag(counts.diagonal())
    order = np.argsort(-(wrong.sum(1) + wrong.sum(0)), kind="stable")
    return sorted(order[: most - 1].tolist())


def merged_others(
    names: Sequence[str], counts: np.ndarray, kept: Sequence[int]
) -> tuple[list[str], np.ndarray]:
    """Return classes and counts with all but some classes as one, which comes last.

    Args:
        names: of the classes.
        counts: rows by gold and predicted class, in their order.
        kept: places of the classes that stay, in the order that they are to have.
    """
    others = len(names) - len(kept)
    into = np.eye(len(names))[:, list(kept)]  # which class each becomes, the last of all others
    into = np.column_stack([into, 1 - into.sum(1)])[:, : len(kept) + (others > 0)]
    merged_names = [*(names[index] for index in kept), *[f"{others} others"] * (others > 0)]
    return merged_names, into.T @ counts @ into
