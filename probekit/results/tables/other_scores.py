"""Scores of a record beside its main one: which a table has columns of, always or on request."""

from collections.abc import Iterator, Mapping, Sequence

from probekit.errors import OptionError
from probekit.metrics import OF_PROBABILITIES, scale_of
from probekit.results.record import Record
from probekit.results.summaries.baseline_scores import RANDOM
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.text_layout import Column, interval_cells

BESIDE: Mapping[str, tuple[str, float | None]] = {
    "dev-mm/accuracy": ("dev-mm", 100),
    "majority": ("majority", None),
    "memorised": ("memorised", None),
    RANDOM: (RANDOM, None),
    "accuracy": ("accuracy", 100),
    "control/accuracy": ("control accuracy", 100),
    "selectivity": ("selectivity", 100),
    "bits per label": ("bits per label", 1),
    "compression": ("compression", 1),
}
"""Scores that a table shows where there are some, such as MNLI's mismatched dev and what baselines
add: title of the column, and factor; None is that of the row's metric."""

_HELD = tuple(metric.name for metric in OF_PROBABILITIES)


def other_scores(group: Sequence[Record], also: Sequence[str]) -> dict[str, Interval]:
    """Return other scores of one setting, as in the records, over its seeds.

    These are the ones of `BESIDE`, those of probabilities on every split, and what is asked for.

    Args:
        group: records that differ in their seed alone.
        also: names of scores that are asked for.
    """
    names = [
        name
        for name in group[0].scores
        if name in BESIDE or name.rpartition("/")[2] in _HELD or _answers(name, also)
    ]
    order = [*(name for name in BESIDE if name in names), *names]
    return {
        name: interval(record.scores[name] for record in group)
        for name in dict.fromkeys(order)
        if all(name in record.scores for record in group)
    }


def check_also(records: Sequence[Record], also: Sequence[str]) -> None:
    """Check that some record has each score that is asked for.

    Raises:
        OptionError: none has.
    """
    held = dict.fromkeys(name for record in records for name in record.scores)
    for name in also:
        if any(_answers(one, [name]) for one in held):
            continue
        if name.rpartition("/")[2] in _HELD:
            raise OptionError(
                f"--also {name}: no record holds it. Regressions have a loss alone, and records of "
                "an earlier version neither loss, ece nor brier; for those, run the command that "
                "trained them again with another --out."
            )
        choices = dict.fromkeys(one.partition("/")[2] or one for one in held)
        raise OptionError(
            f"--also {name}: no record has such a score; choose from: {', '.join(sorted(choices))}."
        )


def other_columns(
    rows: Sequence[tuple[str, Mapping[str, Interval]]], also: Sequence[str]
) -> Iterator[Column]:
    """Yield the columns of `BESIDE` that some row has, then those that are asked for.

    Args:
        rows: metric of each row, and its other scores by name.
        also: ``loss`` for that of every split, or ``test/loss`` for one.
    """
    held = dict.fromkeys(name for _, row in rows for name in row)
    titles: dict[str, tuple[str, float | None, int]]
    titles = {name: (*BESIDE[name], 2) for name in BESIDE if name in held}
    for name in (one for asked in also for one in held if _answers(one, [asked])):
        split, _, score = name.partition("/")
        scale = scale_of(score)
        title = f"{split} {score}" + " (%)" * scale.percent
        titles.setdefault(name, (title, scale.factor, scale.decimals))
    for name, (title, factor, decimals) in titles.items():
        found = [(row.get(name), factor or scale_of(metric).factor) for metric, row in rows]
        values = [one and one.scaled(by) for one, by in found]
        yield Column(title, interval_cells(values, decimals), values=values)


def _answers(name: str, asked: Sequence[str]) -> bool:
    """Say whether a record's score is one that is asked for: ``test/loss`` is a ``loss``."""
    return name in asked or name.partition("/")[2] in asked
