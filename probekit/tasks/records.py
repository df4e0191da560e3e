"""The files that hold one example per record, and the reader of each."""

from collections.abc import Callable, Mapping
from pathlib import Path

from probekit.tasks.arrow_fields import load_parquet, load_saved
from probekit.tasks.fields import Fields
from probekit.tasks.formats import SAVED, format_of
from probekit.tasks.json_fields import load_json, load_jsonl
from probekit.tasks.options import Choice

RECORDS: Mapping[str, Callable[[Path, Choice], Fields]] = {
    ".jsonl": load_jsonl,
    ".parquet": lambda path, _: load_parquet(path),
    ".json": load_json,
    SAVED: lambda path, _: load_saved(path),
}


def load_records(path: Path, choice: Choice) -> Fields:
    """Return the columns of a file of records.

    Raises:
        MissingFileError: there is no such file.
        DataError: it does not hold what its format promises.
    """
    return RECORDS[format_of(path)](path, choice)
