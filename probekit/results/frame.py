"""Records as a list, and as a pandas table with a column for every number."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probekit.base.fingerprint import digest
from probekit.results.record import Record

if TYPE_CHECKING:
    import pandas

_WHOLE = ("depth", "shots", "epochs", "evals", "batch_size")
"""Whole numbers that may be missing: pandas would make fractions of them."""

_AS_IT_IS = ("confusion",)


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
        from probekit.results.tables.record_views import records_view  # which imports records

        return records_view(self)

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


_OF_TEXT = re.compile(r"[^/]*(-[0-9a-f]{8})")
"""The name of data of one's own: what its path was called, and a hash of its text."""


def told_by_text(records: Iterable[Record]) -> list[Record]:
    """Return records of which those of one text say so, under one name.

    A record without `Record.texts` has those of others with the same entry and labels, where these
    agree. A text that was extracted under two paths has the name of the first record.
    """
    given = list(records)
    said: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for record in given:
        texts = said.setdefault((record.entry, record.labels_fingerprint), [])
        if record.texts and record.texts not in texts:
            texts.append(record.texts)
    names: dict[tuple[str, str], str] = {}
    told = []
    for record in given:
        texts = said[record.entry, record.labels_fingerprint]
        known = texts[0] if len(texts) == 1 else record.texts
        name = record.task
        if own := _OF_TEXT.fullmatch(name):
            text = digest(known) if known else record.labels_fingerprint
            name = names.setdefault((own[1], text), name)
        same = (known, name) == (record.texts, record.task)
        told.append(record if same else replace(record, texts=known, task=name))
    return told


def _flat(values: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings with the path to each; empty mappings have none."""
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping) and path not in _AS_IT_IS:
            yield from _flat(value, f"{path}/")
        elif not (above == "" and value is None and path in _NESTED):
            yield path, value


_NESTED = ("raw_weights",)
"""Mappings that are None where there is none."""


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort numbers by size: ``weights/10`` after ``weights/9``."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in name.split("/")]
