"""Predictions of a run as a side file: one row per example, gold and predicted label names."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from probekit.errors import StorageError
from probekit.features import FeatureView


def write_predictions(
    path: Path, predictions: Mapping[str, np.ndarray], views: Mapping[str, FeatureView]
) -> None:
    """Write the predictions of some splits.

    Columns: split, id, gold (a list of label names), predicted (likewise).

    Args:
        path: the Parquet file; folders are created.
        predictions: class number of each row, by split.
        views: the rows that were predicted, by split.

    Raises:
        StorageError: the file cannot be written.
    """
    tables = [_table(split, views[split], found) for split, found in predictions.items()]
    beside = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables(tables), beside)
        os.replace(beside, path)
    except OSError as error:
        raise StorageError(f"{path}: cannot write predictions ({error}).") from error


def _table(split: str, view: FeatureView, predicted: np.ndarray) -> pa.Table:
    names = pa.array(view.all_names)
    bounds = pa.array(view.offsets.astype(np.int32))
    return pa.table(
        {
            "split": [split] * view.n_examples,
            "id": list(view.ids),
            "gold": pa.ListArray.from_arrays(bounds, names.take(pa.array(view.targets))),
            "predicted": pa.ListArray.from_arrays(bounds, names.take(pa.array(predicted))),
        }
    )
