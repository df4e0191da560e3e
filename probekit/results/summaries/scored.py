"""Whose scores are shown: the best ones on dev, or those of the same checkpoints on test."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from probekit.base.registry import choose
from probekit.base.selection import HELD_OUT, Selection
from probekit.errors import RecordError
from probekit.results.record import Record
from probekit.results.summaries.grouping import check_seeds, grouped
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.wording import option_text

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
    if metric not in (None, record.metric):
        return record.scores.get(f"{split}/{metric}")
    if split in SCORE_OF:
        score: float | None = getattr(record, SCORE_OF[split])
        return score
    return record.scores.get(f"{split}/{record.metric}")


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
    have. A solver's fit, or one whose last step is what is kept, has one dev score.
    """
    return any(
        record.eval_last != record.eval_score
        or (record.epochs is not None and Selection.recorded(record.select) == Selection("dev"))
        for record in records
    )


def followed(record: Record) -> str:
    """Return what the scores of a learning curve are of: dev, or held-out sentences."""
    chosen_by = Selection.recorded(record.select)
    apart = chosen_by is not None and chosen_by.kind in (HELD_OUT, "hold-out")
    return "held-out" if apart else "dev"


def score_curve(
    records: Sequence[Record], along: str, score: str, name: str, factor: float = 1.0
) -> dict[Any, Interval]:
    """Return the mean over seeds at every value of an option.

    Args:
        records: of one curve: they differ in the option and their seed alone.
        along: the option, a number.
        score: the field that holds the score.
        name: the curve's name, for the message.
        factor: what scores are multiplied with.

    Raises:
        RecordError: a seed occurs twice at one value.
    """
    groups = {value: group for (value,), group in grouped(records, [along]).items()}
    return {
        value: mean_score(group, score, f"{name}, {option_text(along, value)}").scaled(factor)
        for value, group in groups.items()
    }


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


def mean_score(group: Sequence[Record], score: str, what: str) -> Interval:
    """Return the mean over the seeds of one setting, as in the records.

    Args:
        group: records that differ in their seed alone.
        score: the field that holds the score.
        what: the setting in words, for the message.

    Raises:
        RecordError: a seed occurs twice.
    """
    check_seeds(group, what)
    return interval(getattr(record, score) for record in group)
