"""The side file of a run: what it predicted for every sentence of dev and test, and the truth.

A row per sentence, with lists of an item per word (of one item, where the text has one label):

| column | |
|---|---|
| ``split``, ``id`` | which sentence |
| ``group`` | the sentence's document, prompt, ...; the name of that is in the schema's metadata |
| ``words``; or ``text``, ``text_pair`` | its words that have a label; or its text or texts |
| ``gold``, ``predicted`` | class names, or lists of them; values; of language modelling ids |
| ``loss``, ``confidence``, ``brier`` | of `metrics.ROW_SCORES`; of numbers there are none |
| ``probabilities`` | float16: of all classes, in the order of `About.classes`, or of ``kept`` |
| ``kept`` | names or ids of the most probable classes, where there are too many to keep all |
| ``odds`` | float32: log odds of all classes; of sets of labels less the label's threshold |

Without ``group`` nothing is known to be shared. Files of earlier versions hold ``split``, ``id``,
and ``gold`` and ``predicted``, or ``loss``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from probekit.base.fingerprint import digest_file, parse_json
from probekit.base.packed_files import read_parquet
from probekit.base.registry import PathName
from probekit.base.replacing import replacing
from probekit.errors import MissingFileError, RecordError, StorageError
from probekit.metrics import ROW_SCORES

Content = Literal["classes", "sets", "values", "losses"]
Rows = Mapping[str, pa.Array]
"""Columns of a split, its sentences one after another."""

_ABOUT = b"probekit"
_GROUPED_BY = b"group"
_SCORES = ("loss", "confidence", "brier")
"""What of `ROW_SCORES` is written; ``right`` follows from the classes."""

_TEXTS = ("words", "text", "text_pair")
_OF_PROBABILITIES = (*_SCORES, "kept", "probabilities", "odds")


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
        content: what ``predicted`` holds: numbers of classes, sets of labels, values (regression),
            or the loss of each row in nats (language modelling).
        predicted: one number per row: int64 indices into ``names``, or float64; of sets whether
            the row is said to have each of ``names``, shape (rows, names).
        gold: likewise what is true; of losses the vocabulary id, or None in a file of an earlier
            version.
        names: the classes, then the labels that only the gold side has.
        texts: of each sentence its text, the two texts of a pair, or the words of its rows; empty
            in a file of an earlier version.
        groups: what each sentence shares with others, such as its document; empty where nothing is
            known of the split.
        grouped_by: what the groups are: ``document``, or the column that the user named.
        probabilities: of the classes that were kept, float16, shape (rows, kept), of classes alone.
            Where two are equal, ``predicted`` says which one is the larger in full precision; of a
            chain (CRF), it is the tag on the best path, which need not be the most probable one.
        kept: number of the class of each probability in the same shape, the most probable first,
            where there are too many classes to keep all; None where all are, in their order.
        row_scores: what the probabilities score, `metrics.ROW_SCORES`, shape (rows,); None where
            there are none.
        odds: log odds of each class, float32, shape (rows, classes), of sets less the threshold of
            the label; None where not all were kept.
    """

    ids: tuple[str, ...]
    offsets: np.ndarray
    content: Content
    predicted: np.ndarray
    gold: np.ndarray | None
    names: tuple[str, ...] = ()
    texts: tuple[str | tuple[str, ...], ...] = ()
    groups: tuple[str, ...] = ()
    grouped_by: str = ""
    probabilities: np.ndarray | None = None
    kept: np.ndarray | None = None
    row_scores: np.ndarray | None = None
    odds: np.ndarray | None = None

    def label_text(self, label: Any) -> str:
        """Return an item of ``predicted`` or ``gold`` as it is shown."""
        if self.content == "sets":
            return ", ".join(np.array(self.names, object)[label]) or "(none)"
        return self.names[label] if self.names else str(label)

    def probability_of_predicted(self) -> np.ndarray:
        """Return the probability of what is predicted of each row; NaN where it was not kept."""
        if self.content == "sets" and self.row_scores is not None:
            return self.row_scores["confidence"].astype(np.float64)
        if self.probabilities is None:
            return np.full(len(self.predicted), np.nan)
        values = self.probabilities.astype(np.float64)
        if self.kept is None:
            return np.asarray(values[np.arange(len(values)), self.predicted])
        match = self.kept == self.predicted[:, None]
        return np.where(match.any(1), (values * match).sum(1), np.nan)


def write_predicted(path: Path, about: About, splits: Mapping[str, Predicted]) -> None:
    """Write the side file of a run, complete or not at all; folders are created.

    The columns are those above. What `About` holds, and what groups are, is in the schema's
    metadata.

    Raises:
        StorageError: the file cannot be written.
    """
    tables = [_table(split, predicted) for split, predicted in splits.items()]
    table = pa.concat_tables(tables, promote_options="default")  # some splits have no groups
    grouped_by = max(predicted.grouped_by for predicted in splits.values())
    metadata = {_ABOUT: json.dumps(asdict(about), ensure_ascii=False), _GROUPED_BY: grouped_by}
    table = table.replace_schema_metadata(metadata)
    try:
        with replacing(path) as fresh:
            _write(table, fresh)
    except OSError as error:
        raise StorageError(f"{path}: cannot write predictions ({error}).") from error


def _write(table: pa.Table, path: Path) -> None:
    """Write numbers byte by byte of all their values: a quarter smaller, in a quarter of the time.

    All else is written by dictionary.
    """
    paths: dict[bool, list[str]] = {True: [], False: []}
    for column in table.schema:
        path_inside, kind = column.name, column.type
        while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            path_inside, kind = f"{path_inside}.list.element", kind.value_type
        paths[pa.types.is_floating(kind)].append(path_inside)
    pq.write_table(
        table,
        path,
        compression="zstd",
        use_dictionary=paths[False],
        use_byte_stream_split=paths[True],
    )


def _table(split: str, predicted: Predicted) -> pa.Table:
    names = pa.array(predicted.names, pa.string())
    by_name = predicted.content in ("classes", "sets")

    def labels(numbers: np.ndarray) -> pa.Array:
        if numbers.ndim == 2:
            bounds = np.append(0, numbers.sum(1).cumsum()).astype(np.int32)
            return pa.ListArray.from_arrays(bounds, names.take(pa.array(np.nonzero(numbers)[1])))
        return names.take(pa.array(numbers)) if by_name else pa.array(numbers)

    rows: dict[str, pa.Array] = {}
    if predicted.gold is not None:
        rows["gold"] = labels(predicted.gold)
    rows["loss" if predicted.content == "losses" else "predicted"] = labels(predicted.predicted)
    if predicted.row_scores is not None:
        scores = {name: pa.array(predicted.row_scores[name]) for name in _SCORES}
        rows = scores | rows if predicted.content == "losses" else rows | scores
    for name in ("kept", "probabilities", "odds"):
        if (matrix := getattr(predicted, name)) is not None:
            flat = labels(matrix.ravel()) if name == "kept" else pa.array(matrix.ravel())
            rows[name] = pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
    bounds = pa.array(predicted.offsets.astype(np.int32))
    lists = {name: pa.ListArray.from_arrays(bounds, column) for name, column in rows.items()}
    columns = {"split": [split] * len(predicted.ids), "id": list(predicted.ids)}
    if predicted.groups:
        columns["group"] = list(predicted.groups)
    return pa.table(columns | _text_columns(predicted) | lists)


def _text_columns(predicted: Predicted) -> dict[str, pa.Array]:
    """Return the texts in columns: of a sentence with one row, two strings are a pair."""
    if not predicted.texts:
        return {}
    if all(isinstance(text, str) for text in predicted.texts):
        return {"text": pa.array(predicted.texts, pa.string())}
    rows = np.diff(predicted.offsets)
    if (rows == 1).all() and all(len(text) == 2 for text in predicted.texts):
        sides = zip(*predicted.texts, strict=True)
        return {
            name: pa.array(side, pa.string())
            for name, side in zip(("text", "text_pair"), sides, strict=True)
        }
    return {"words": pa.array(predicted.texts, pa.list_(pa.string()))}


def read_predicted(
    path: PathName,
    *,
    texts: bool = True,
    probabilities: bool = True,
    written: str | None = None,
) -> tuple[About | None, dict[str, Predicted]]:
    """Read a side file.

    Args:
        path: of the file.
        texts: read the texts, which take most of the time.
        probabilities: read the probabilities of classes and what they score, most of the file.
        written: sha256 of the file as it was written, ``Record.predictions_digest``, to be
            compared; None where that is not known.

    Returns:
        What it says of its run (None in a file of version 0.1.0), and its splits by name.

    Raises:
        MissingFileError: there is no such file.
        RecordError: it is no side file, or not as it was written.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(
            f"{path}: no such file of predictions; run the same `probekit train` or `sweep` "
            "command again with --predictions."
        )
    if written is not None and written != digest_file(path):
        raise RecordError(
            f"{path} is damaged: it has changed since it was written. Remove it and run the same "
            "command again with --predictions."
        )
    try:
        table = _read_columns(path, texts=texts, probabilities=probabilities)
        said = parse_json((table.schema.metadata or {}).get(_ABOUT, "null"))
        about = None if said is None else About(**said | {"classes": tuple(said["classes"])})
        names = table["split"].unique().to_pylist()
        return about, {name: _split(table, name, about) for name in names}
    except (OSError, KeyError, TypeError, ValueError) as error:  # Arrow's are among them
        raise RecordError(f"{path}: not a file of predictions ({error}).") from None


def _read_columns(path: Path, *, texts: bool, probabilities: bool) -> pa.Table:
    unread = set() if texts else {*_TEXTS}
    # without values, losses are what was predicted
    schema = pq.read_schema(path)
    if not probabilities and "predicted" in schema.names:
        unread.update(_OF_PROBABILITIES)
        if pa.types.is_list(schema.field("predicted").type.value_type):
            unread.remove("odds")  # which sets of labels are scored by
    return read_parquet(path, unread)


def _split(table: pa.Table, name: str, about: About | None) -> Predicted:
    chosen = table.filter(pa.compute.equal(table["split"], name)).combine_chunks()
    lists = {
        column: chosen[column].combine_chunks()
        for column in chosen.column_names
        if pa.types.is_list(chosen[column].type) and column != "words"
    }
    offsets = _offsets(lists["predicted" if "predicted" in lists else "loss"])
    if any(not np.array_equal(offsets, _offsets(column)) for column in lists.values()):
        raise ValueError(f"{name}: as many predictions as labels were expected in every row")
    rows = {column: values.flatten() for column, values in lists.items()}
    kind = rows["gold"].type if "gold" in rows else pa.null()
    if pa.types.is_string(kind) or pa.types.is_list(kind):
        content = _labels(rows, about.classes if about else ())
    elif "predicted" in rows:
        predicted, gold = _numbers(rows["predicted"]), _numbers(rows["gold"])
        content = {"content": "values", "predicted": predicted, "gold": gold}
    else:
        content = _losses(rows)
    ids = tuple(chosen["id"].to_pylist())
    shared = {"texts": _texts(chosen), **_groups(chosen)}
    return Predicted(ids=ids, offsets=offsets, **shared, **content)


def _groups(table: pa.Table) -> dict[str, Any]:
    """Return what `Predicted` holds of groups: those of all sentences of the split, or none."""
    groups = table["group"].to_pylist() if "group" in table.column_names else [None]
    if all(group is None for group in groups):
        return {}
    if None in groups:
        raise ValueError("some sentences of a split have no group, and others have one")
    return {"groups": tuple(groups), "grouped_by": table.schema.metadata[_GROUPED_BY].decode()}


def _labels(rows: Rows, classes: Sequence[str]) -> dict[str, Any]:
    """Return what `Predicted` holds of rows with names of classes, or lists of labels.

    Args:
        rows: columns of a split.
        classes: the names that come first.
    """
    of_sets = pa.types.is_list(rows["gold"].type)
    sides = {name: rows[name] for name in ("gold", "predicted")}
    flat = {name: side.flatten() if of_sets else side for name, side in sides.items()}
    others = {name for labels in flat.values() for name in labels.unique().to_pylist()}
    names = (*classes, *sorted(others.difference(classes)))
    held: dict[str, Any] = {name: _indices(labels, names) for name, labels in flat.items()}
    for name, side in sides.items() if of_sets else ():
        matrix = np.zeros((len(side), len(names)), bool)
        matrix[pa.compute.list_parent_indices(side), held[name]] = True
        held[name] = matrix
    right = held["gold"] == held["predicted"]
    held |= {"content": "sets" if of_sets else "classes", "names": names}
    held |= {name: _matrix(rows, name) for name in ("probabilities", "odds")}
    if "kept" in rows:
        width = held["probabilities"].shape[1]
        held["kept"] = _indices(rows["kept"].flatten(), names).reshape(-1, width)
    if "loss" in rows:
        held["row_scores"] = _row_scores(rows, right.all(1) if of_sets else right)
    return held


def _losses(rows: Rows) -> dict[str, Any]:
    losses, kept = _numbers(rows["loss"]), _matrix(rows, "kept")
    held = {"content": "losses", "predicted": losses, "gold": None, "kept": kept}
    if kept is not None:
        gold = np.asarray(rows["gold"].to_numpy(zero_copy_only=False), np.int64)
        held |= {"gold": gold, "row_scores": _row_scores(rows, kept[:, 0] == gold)}
        held["probabilities"] = _matrix(rows, "probabilities")
    return held


def _row_scores(rows: Rows, right: np.ndarray) -> np.ndarray:
    scores = np.empty(len(right), ROW_SCORES)
    scores["right"] = right
    for name in _SCORES:
        scores[name] = _numbers(rows[name])
    return scores


def _texts(table: pa.Table) -> tuple[str | tuple[str, ...], ...]:
    names = [name for name in _TEXTS if name in table.column_names]
    columns = [table[name].to_pylist() for name in names]
    if names == ["words"]:
        return tuple(map(tuple, columns[0]))
    return tuple(columns[0]) if names == ["text"] else tuple(zip(*columns, strict=True))


def _offsets(lists: pa.ListArray) -> np.ndarray:
    lengths = pa.compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _matrix(rows: Rows, column: str) -> np.ndarray | None:
    """Return a column of several numbers per row, in its own dtype; None if there is none."""
    if column not in rows:
        return None
    if not pa.types.is_fixed_size_list(rows[column].type):
        raise TypeError(f"{column}: as many numbers in every row were expected")
    values = rows[column].flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values).reshape(-1, rows[column].type.list_size)


def _numbers(values: pa.Array) -> np.ndarray:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _indices(labels: pa.Array, names: Sequence[str]) -> np.ndarray:
    indices = pa.compute.index_in(labels, value_set=pa.array(names, pa.string()))
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.int64)
