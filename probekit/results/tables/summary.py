"""Records grouped over seeds: the rows of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from probekit.errors import RecordError
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.grouping import check_seeds, grouped
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.scored import has_two_scores
from probekit.results.summaries.wording import OPTIONS, options_text

ALWAYS = ("head", "shots")
"""Options that every row is named by."""

BESIDE = {
    "dev-mm/accuracy": ("dev-mm", 100),
    "accuracy": ("accuracy", 100),
    "control/accuracy": ("control accuracy", 100),
    "selectivity": ("selectivity", 100),
    "bits per label": ("bits per label", 1),
    "compression": ("compression", 1),
}
"""Other scores of a record, such as MNLI's mismatched dev and what baselines add: title of the
column, and factor."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Records that differ in their seed alone, as one line of a table.

    Attributes:
        options: the options they share, by name.
        metric: the metric of the scores.
        seeds: their seeds, ascending.
        eval_score: best dev score as in the records (not in percent), mean and interval.
        eval_last: last dev score.
        test_score: test score over the seeds that have one; None without any.
        n_params: trained parameters, rounded mean.
        train_seconds: mean wall-clock seconds of training.
        diverged: how many of the runs diverged.
        two_scores: whether best and last dev score are two things in some of the runs.
        marks: what is wrong with any of the runs, in words.
        rate_from: where their rates are from; None where they have none, or do not say.
        beside: other scores that all the records hold, such as ``selectivity``.
    """

    options: Mapping[str, Any]
    metric: str
    seeds: tuple[int, ...]
    eval_score: Interval
    eval_last: Interval
    test_score: Interval | None
    n_params: int
    train_seconds: float
    diverged: int = 0
    two_scores: bool = False
    marks: tuple[str, ...] = ()
    rate_from: str | None = None
    beside: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of seeds."""
        return len(self.seeds)

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON values."""
        return asdict(self)


def summarise(records: Sequence[Record], by: Sequence[str] | None = None) -> list[Row]:
    """Group records over seeds.

    Args:
        records: any records.
        by: options that make a row; all of them when None.

    Returns:
        One row per combination of values, in a fixed order (baselines first, shots ascending).

    Raises:
        RecordError: there are no records, or a row would average over more than seeds.
        OptionError: ``by`` names no option of a record.
    """
    _require_records(records)
    names = tuple(OPTIONS if by is None else by)
    return [
        _row(group, dict(zip(names, key, strict=True)))
        for key, group in grouped(records, names).items()
    ]


def _require_records(records: Sequence[Record]) -> None:
    """Refuse an empty list of records, saying how to make some."""
    if not records:
        raise RecordError("no records; run `probekit train` or `probekit sweep` first.")


def _row(group: Sequence[Record], options: dict[str, Any]) -> Row:
    what = options_text({name: options[name] for name in ALWAYS if name in options})
    what = what or "all records"
    if len(metrics := sorted({record.metric for record in group})) > 1:
        raise RecordError(f"{what}: cannot average {' and '.join(metrics)}; group by task, label.")
    check_seeds(group, what)
    tests = [record.test_score for record in group if record.test_score is not None]
    return Row(
        options=options,
        metric=metrics[0],
        seeds=tuple(sorted(record.seed for record in group)),
        eval_score=interval(record.eval_score for record in group),
        eval_last=interval(record.eval_last for record in group),
        test_score=interval(tests) if tests else None,
        n_params=round(interval(record.n_params for record in group).mean),
        train_seconds=interval(record.train_seconds for record in group).mean,
        diverged=sum(record.diverged for record in group),
        two_scores=has_two_scores(group),
        marks=marks(group),
        rate_from=" or ".join(sorted({r.rate_from for r in group if r.rate_from})) or None,
        beside={
            name: interval(record.scores[name] for record in group)
            for name in BESIDE
            if all(name in record.scores for record in group)
        },
    )
