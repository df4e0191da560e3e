"""The columns of Parquet files and of data sets of the ``datasets`` library."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probekit.errors import DataError, MissingFileError
from probekit.tasks.formats.fields import Fields
from probekit.tasks.label_names import by_name
from probekit.tasks.sentences import origin_of


def load_saved(path: Path) -> Fields:
    """Read what ``Dataset.save_to_disk`` of the ``datasets`` library wrote.

    Raises:
        DataError: the folder is damaged.
    """
    import datasets

    try:
        dataset = datasets.load_from_disk(path)
        return dataset_fields(dataset, str(path), origin_of(path))
    except (OSError, ValueError, KeyError) as error:  # pyarrow's own errors are among them
        raise DataError(f"{path}: not a readable saved data set ({error}).") from error


def dataset_fields(dataset: Any, where: str, origin: str) -> Fields:
    """Return the rows of a ``datasets.Dataset``; numbers of a ClassLabel become their names.

    Args:
        dataset: one split.
        where: the source, for messages.
        origin: the same as the manifest names it.
    """
    plain = dataset.with_format(None)
    values = {}
    for name, feature in plain.features.items():
        if type(_inner(feature)).__name__ not in ("Value", "ClassLabel"):
            continue  # images and sounds, which are decoded when they are read
        labels, rows = class_names(feature), plain[name][:]
        values[name] = rows if labels is None else by_name(rows, labels)
    lines = range(1, len(plain) + 1)
    return Fields(where=where, origin=origin, lines=lines, values=values, unit="row")


def class_names(feature: Any) -> Sequence[str] | None:
    """Return the names of a ClassLabel, or of a list of them; None for another feature."""
    return getattr(_inner(feature), "names", None)


def _inner(feature: Any) -> Any:
    """Return what a list holds, or the feature itself."""
    return getattr(feature, "feature", feature)


def load_parquet(path: Path) -> Fields:
    """Read a ``.parquet`` file; numbers of a ``datasets`` ClassLabel become their names.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is no Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise MissingFileError(f"{path}: no such file.")
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}).") from error
    values = {name: table.column(name).to_pylist() for name in table.column_names}
    for name, labels in _written_names(table.schema.metadata or {}).items():
        if name in values:
            values[name] = by_name(values[name], labels)
    return Fields.of_file(path, values)


def _written_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the label names that ``datasets`` wrote into the file, by column."""
    info = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {})
    found = {}
    for name, feature in info.get("features", {}).items():
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and "names" in inner:
            found[name] = inner["names"]
    return found
