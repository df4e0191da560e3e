"""What a run saves besides its record: its head's account of the training, and predictions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from probekit.features import FeatureView, Splits, settled_array
from probekit.results.predictions import About, Predicted, write_predicted
from probekit.train.result import FitResult
from probekit.train.sweeps.specs import ResolvedOptions


def describe_training(
    splits: Splits, options: ResolvedOptions, result: FitResult, *, init: str | None = None
) -> dict[str, Any]:
    """Return what a saved head's config says of where it comes from.

    Args:
        splits: the features that it was trained on.
        options: of the run.
        result: of the run.
        init: what the saved head that the run started from was trained on, if there is one.

    Returns:
        model (name and hashes), features (how rows are made of text), task, label, labels, the
        metric and its scores, all options of the run.
    """
    manifest = splits.entries["train"].manifest
    return {
        "model": dict(manifest.model_info),
        "features": {
            "dim": manifest.dim,
            "n_blocks": manifest.n_blocks,
            "kind": splits.kind,
            "text_kind": _text_kind(splits),
            "array": settled_array(splits.kind, options.spec.pooling),
            "pooling": manifest.pooling,
            "dtype": manifest.dtype,
            "compute_dtype": manifest.compute_dtype,
            "max_length": manifest.request.get("max_length"),
            "overlong": manifest.request.get("overlong", "stride"),
            "entry": manifest.key,
        },
        "task": splits.task.name,
        "label": splits.column,
        "labels": list(splits.label_map.names),
        "metric": splits.metric,
        "eval_score": result.eval_score,
        "test_score": result.test_score,
        "options": options.to_json(),
        "init": init,
        "key": options.key,
    }


def _text_kind(splits: Splits) -> str:
    """Return what a head reads; the texts of a regression are single ones or pairs."""
    entry = splits.entries["train"]
    if entry.manifest.kind != "regression":
        return entry.manifest.kind
    return "pair" if entry.examples.has("text_pair") else "sentence"


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
    """Join the passages of each text, and its readings under other masks (``ID#PASS``).

    They depend on one another, so a bootstrap must draw them together.
    """
    masking = view.entry.manifest.request["masking"] or {}
    read_again = masking.get("passes", 1) > 1
    names = np.array([name.rpartition("#")[0] if read_again else name for name in view.ids])
    first = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
    return tuple(names[first].tolist()), np.append(view.offsets[first], view.offsets[-1])
