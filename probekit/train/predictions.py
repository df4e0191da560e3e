"""Predictions of a run as a side file: gold and predicted labels, or losses, of every example."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from probekit.features import FeatureView
from probekit.results.predictions import About, Predicted, write_predicted


def write_predictions(
    path: Path,
    predictions: Mapping[str, np.ndarray],
    views: Mapping[str, FeatureView],
    *,
    key: str,
    metric: str,
    labels_fingerprint: str,
) -> None:
    """Write the predictions of some splits.

    Args:
        path: the Parquet file; folders are created.
        predictions: by split, for each row: its class number; its value, where targets are
            values; or its loss, where targets are classes too many to name.
        views: the rows that were predicted, by split.
        key: key of the run's record.
        metric: name of the metric that scores the run.
        labels_fingerprint: as in the record.

    Raises:
        StorageError: the file cannot be written.
    """
    splits = {split: _predicted(views[split], rows) for split, rows in predictions.items()}
    by_class = any(split.content == "classes" for split in splits.values())
    about = About(
        key=key,
        metric=metric,
        labels_fingerprint=labels_fingerprint,
        classes=next(iter(views.values())).labels.names if by_class else (),
    )
    write_predicted(path, about, splits)


def _predicted(view: FeatureView, rows: np.ndarray) -> Predicted:
    if np.issubdtype(rows.dtype, np.integer):
        return Predicted(
            ids=view.ids,
            offsets=view.offsets,
            content="classes",
            predicted=rows,
            gold=view.targets,
            names=view.all_names,
        )
    if np.issubdtype(view.targets.dtype, np.floating):
        return Predicted(
            ids=view.ids,
            offsets=view.offsets,
            content="values",
            predicted=rows,
            gold=view.targets,
        )
    texts, offsets = _whole_texts(view)
    return Predicted(ids=texts, offsets=offsets, content="losses", predicted=rows, gold=None)


def _whole_texts(view: FeatureView) -> tuple[tuple[str, ...], np.ndarray]:
    """Join the pieces of each text, and its readings under other masks (``ID#PASS``).

    They depend on one another, so a bootstrap must draw them together.
    """
    masking = view.entry.manifest.request["masking"] or {}
    read_again = masking.get("passes", 1) > 1
    names = np.array([name.rpartition("#")[0] if read_again else name for name in view.ids])
    first = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
    return tuple(names[first].tolist()), np.append(view.offsets[first], view.offsets[-1])
