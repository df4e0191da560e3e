"""Records as a list, and as a pandas table with a column for every number."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probekit.base.markup import html_view
from probekit.base.plugins import trusting
from probekit.base.registry import PathName
from probekit.metrics import METRICS
from probekit.results.log import read_records, told_by_text
from probekit.results.record import Record
from probekit.results.summaries.grouping import beside_heads
from probekit.results.summaries.select import matching
from probekit.results.tables.scores import score_table

if TYPE_CHECKING:
    import pandas

_WHOLE = ("depth", "shots", "epochs", "evals", "batch_size")
"""Whole numbers that may be missing: pandas would make fractions of them."""


class Records(list[Record]):
    """A list of records that knows their files and can be made a pandas table.

    One text has one name in it, and records of earlier versions, which do not say their texts, have
    those of records beside them: see `told_by_text`.

    Attributes:
        origins: the file that each record was read from, by its key.
    """

    def __init__(
        self, records: Iterable[Record] = (), origins: Mapping[str, Path] | None = None
    ) -> None:
        """Keep the records and their files."""
        super().__init__(told_by_text(records))
        self.origins: Mapping[str, Path] = dict(origins or {})

    def _repr_html_(self) -> str:
        """Return for a notebook the scores that ``probekit table`` prints."""
        if not self:
            return html_view(title="no records")
        return score_table(beside_heads(matching(self, [])))._repr_html_()

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a data frame with one row per record.

        Columns have the names of `Record`'s fields. What a field holds by name or layer has a
        column for each, under the path to it: ``scores/dev/loss``, ``weights/3``,
        ``class_weights/PER/3``, ``diagnosis/converged``, ``options/head.n``. Sequences (``layers``,
        ``curve``) and the confusion stay as they are. What a record does not have is missing
        (``NaN``, or ``<NA>`` among whole numbers), so group with ``dropna=False``: ``shots`` is
        missing where all of train was used.
        """
        import pandas  # slow to import

        rows = [dict(_flat(vars(record))) for record in self]
        fields = list(Record.__dataclass_fields__)
        names = {name for row in rows for name in row}
        ordered = sorted(names, key=lambda name: (fields.index(name.split("/")[0]), _natural(name)))
        frame = pandas.DataFrame.from_records(rows, columns=ordered if rows else fields)
        whole = {name: "Int64" for name in _WHOLE if name in frame}
        return frame.astype(whole)


def load_records(paths: PathName | Iterable[PathName], *, trust_plugins: bool = False) -> Records:
    """Read records from results files: a list, which ``to_pandas()`` makes a data frame of.

    A torn last line is left out with a logged note. Where a key occurs more than once, the last
    record with it counts, at the place of the first. Predictions that were moved together with
    their results file are found beside it.

    Args:
        paths: one file or folder, or several; a folder stands for every ``*.jsonl`` below it.
        trust_plugins: import metrics that are not known here by the paths that the files name,
            which runs whatever lies there.

    Raises:
        MissingFileError: a path does not exist, or a folder holds no results file.
        RecordError: a line is no record; the message names file and line.
        UnknownNameError: a metric that a file names cannot be imported.
    """
    records = Records(*read_records([paths] if isinstance(paths, str | PathLike) else paths))
    if trust_plugins:
        with trusting(True):
            for record in records:
                METRICS.recall(record.metric, record.plugins.get("metric"))
    return records


def select(records: Sequence[Record], conditions: Sequence[str]) -> Records:
    """Return the records that meet every condition, with their files; see `matching`.

    Raises:
        OptionError: a condition is malformed.
        UnknownNameError: a name is no option of a record.
        RecordError: no record is left; the message lists the values that occur.
    """
    origins = records.origins if isinstance(records, Records) else None
    return Records(matching(records, conditions), origins)


def _flat(values: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings with the path to each; empty mappings have none."""
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping) and path != "confusion":
            yield from _flat(value, f"{path}/")
        elif (path, value) != ("raw_weights", None):  # mappings, or None
            yield path, value


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort numbers by size: ``weights/10`` after ``weights/9``."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in name.split("/")]
