"""The side file of a run: what it predicted for every sentence of dev and test, and the truth."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from probekit.errors import MissingFileError, RecordError, StorageError

Content = Literal["classes", "values", "losses"]

_ABOUT = b"probekit"


@dataclass(frozen=True, kw_only=True)
class About:
    """What a side file says of its run.

    Attributes:
        key: key of the run's record.
        metric: name of the metric that the predictions are scored with.
        labels_fingerprint: as in the record.
        classes: names that the run can predict, in the order of its logits; none for numbers.
    """

    key: str
    metric: str
    labels_fingerprint: str
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Predicted:
    """The predictions for one split, row after row.

    Attributes:
        ids: id of each sentence.
        offsets: sentence e owns rows ``offsets[e]:offsets[e + 1]``; shape (sentences + 1,).
        content: what ``predicted`` holds: numbers of classes, values (regression), or the loss of
            each row in nats (language modelling).
        predicted: one number per row: int64 indices into ``names``, or float64.
        gold: likewise what is true; None for losses, which need it no more.
        names: the classes, then the labels that only the gold side has.
        texts: the text of each sentence, or its words; empty in a file of an earlier version.
        probabilities: of the classes that were kept, float16, shape (rows, kept), of classes alone.
        kept: number of the class of each probability in the same shape, the most probable first,
            where there are too many classes to keep all; None where all are, in their order.
    """

    ids: tuple[str, ...]
    offsets: np.ndarray
    content: Content
    predicted: np.ndarray
    gold: np.ndarray | None
    names: tuple[str, ...] = ()
    texts: tuple[str | tuple[str, ...], ...] = ()
    probabilities: np.ndarray | None = None
    kept: np.ndarray | None = None


def write_predicted(path: Path, about: About, splits: Mapping[str, Predicted]) -> None:
    """Write the side file of a run, complete or not at all; folders are created.

    Columns: ``split``, ``id``, and a list per sentence in ``gold`` and ``predicted`` (label names,
    or values), or in ``loss``. What `About` holds is in the schema's metadata.

    Raises:
        StorageError: the file cannot be written.
    """
    table = pa.concat_tables(_table(split, found) for split, found in splits.items())
    table = table.replace_schema_metadata({_ABOUT: json.dumps(asdict(about), ensure_ascii=False)})
    beside = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, beside)
        os.replace(beside, path)
    except OSError as error:
        raise StorageError(f"{path}: cannot write predictions ({error}).") from error


def _table(split: str, found: Predicted) -> pa.Table:
    bounds = pa.array(found.offsets.astype(np.int32))
    names = pa.array(found.names, pa.string())

    def per_sentence(rows: np.ndarray) -> pa.ListArray:
        flat = names.take(pa.array(rows)) if found.content == "classes" else pa.array(rows)
        return pa.ListArray.from_arrays(bounds, flat)

    columns = {"split": [split] * len(found.ids), "id": list(found.ids)}
    if found.gold is None:
        return pa.table(columns | {"loss": per_sentence(found.predicted)})
    gold, predicted = per_sentence(found.gold), per_sentence(found.predicted)
    return pa.table(columns | {"gold": gold, "predicted": predicted})


def read_predicted(path: Path) -> tuple[About | None, dict[str, Predicted]]:
    """Read a side file.

    Returns:
        What it says of its run (None in a file of version 0.1.0), and its splits by name.

    Raises:
        MissingFileError: there is no such file.
        RecordError: it is no side file.
    """
    if not path.is_file():
        raise MissingFileError(
            f"{path}: no such file of predictions; run the same `probekit train` or `sweep` "
            "command again with --predictions."
        )
    try:
        table = pq.read_table(path)
        said = json.loads((table.schema.metadata or {}).get(_ABOUT, "null"))
        about = None if said is None else About(**said | {"classes": tuple(said["classes"])})
        names = table["split"].unique().to_pylist()
        return about, {name: _split(table, name, about) for name in names}
    except (OSError, KeyError, TypeError, ValueError) as error:  # Arrow's are among them
        raise RecordError(f"{path}: not a file of predictions ({error}).") from None


def _split(table: pa.Table, name: str, about: About | None) -> Predicted:
    chosen = table.filter(pa.compute.equal(table["split"], name)).combine_chunks()
    held = {column: _flat(chosen, column) for column in chosen.column_names[2:]}
    ids = tuple(chosen["id"].to_pylist())
    if "loss" in held:
        offsets, losses = held["loss"]
        found = _numbers(losses)
        return Predicted(ids=ids, offsets=offsets, content="losses", predicted=found, gold=None)
    (offsets, true), (other, guessed) = held["gold"], held["predicted"]
    if not np.array_equal(offsets, other):
        raise ValueError(f"{name}: as many predictions as labels were expected in every row")
    if not pa.types.is_string(true.type):
        found, gold = _numbers(guessed), _numbers(true)
        return Predicted(ids=ids, offsets=offsets, content="values", predicted=found, gold=gold)
    classes = about.classes if about else ()
    others = {*true.unique().to_pylist(), *guessed.unique().to_pylist()}.difference(classes)
    names = (*classes, *sorted(others))
    return Predicted(
        ids=ids,
        offsets=offsets,
        content="classes",
        predicted=_indices(guessed, names),
        gold=_indices(true, names),
        names=names,
    )


def _flat(table: pa.Table, column: str) -> tuple[np.ndarray, pa.Array]:
    """Return the bounds and the values of a column of lists."""
    lists = table[column].combine_chunks()
    lengths = pa.compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), lists.flatten()


def _numbers(values: pa.Array) -> np.ndarray:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _indices(labels: pa.Array, names: Sequence[str]) -> np.ndarray:
    found = pa.compute.index_in(labels, value_set=pa.array(names, pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)
