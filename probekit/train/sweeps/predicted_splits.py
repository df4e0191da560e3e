"""What a run predicted of its splits, as the rows of its side file."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from probekit.features import FeatureView
from probekit.results.predictions import About, Content, Predicted, write_predicted
from probekit.train.row_probabilities import RowProbabilities


def write_predictions(
    path: Path,
    predictions: Mapping[str, np.ndarray],
    views: Mapping[str, FeatureView],
    *,
    probabilities: Mapping[str, RowProbabilities] | None = None,
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
        probabilities: what the probabilities of these rows say, by split; none of numbers.
        key: key of the run's record.
        metric: name of the metric that scores the run.
        labels_fingerprint: as in the record.

    Raises:
        StorageError: the file cannot be written.
    """
    said = probabilities or {}
    splits = {
        split: _predicted(views[split], rows, said.get(split))
        for split, rows in predictions.items()
    }
    by_class = any(split.content == "classes" for split in splits.values())
    about = About(
        key=key,
        metric=metric,
        labels_fingerprint=labels_fingerprint,
        classes=next(iter(views.values())).labels.names if by_class else (),
    )
    write_predicted(path, about, splits)


def _predicted(
    view: FeatureView, rows: np.ndarray, probabilities: RowProbabilities | None
) -> Predicted:
    content: Content
    gold: np.ndarray | None
    if np.issubdtype(rows.dtype, np.integer):
        content, gold, names = "classes", view.targets, view.all_names
    elif np.issubdtype(view.targets.dtype, np.floating):
        content, gold, names = "values", view.targets, ()
    else:
        content, gold, names = "losses", None if probabilities is None else view.targets, ()
    ids, offsets, texts, positions = view.ids, view.offsets, view.texts, view.positions
    if content == "losses":
        first = _first_passages(view)
        ids = tuple(_names_of_texts(view)[first].tolist())
        offsets = np.append(view.offsets[first], view.offsets[-1])
        texts = [texts[place] for place in first]
        positions = positions[first]
    said, shared = probabilities, view.resampled
    return Predicted(
        ids=ids,
        offsets=offsets,
        content=content,
        predicted=rows,
        gold=gold,
        names=names,
        texts=tuple(texts),
        groups=() if shared is None else tuple(shared.names[place] for place in positions),
        grouped_by="" if shared is None else shared.column,
        probabilities=None if said is None else said.probabilities,
        kept=None if said is None else said.kept,
        row_scores=None if said is None else said.scores,
    )


def _names_of_texts(view: FeatureView) -> np.ndarray:
    """Return the text of each passage, whichever its reading under other masks (``ID#PASS``)."""
    masking = view.entry.manifest.request["masking"] or {}
    read_again = masking.get("passes", 1) > 1
    return np.array([name.rpartition("#")[0] if read_again else name for name in view.ids])


def _first_passages(view: FeatureView) -> np.ndarray:
    """Return the place of each text's first passage, its readings under other masks joined.

    They depend on one another, so a bootstrap must draw them together.
    """
    # The passages a#0, a#0, a#1, b#0 with offsets 0, 2, 3, 7, 9, where texts are read twice: the
    # names are a, a, a, b, the first passages 0 and 3, so the offsets of a and b are 0, 7, 9. Where
    # they are read once, a#0 is a name of its own: a#0, a#1, b#0 with 0, 3, 7, 9.
    names = _names_of_texts(view)
    return np.flatnonzero(np.append(True, names[1:] != names[:-1]))
