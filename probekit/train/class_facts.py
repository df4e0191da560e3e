"""What a trained head does class by class: layer weights, confusions."""

from typing import Any

import numpy as np
import torch

from probekit.features import FeatureView
from probekit.metrics import Gold, confusion
from probekit.probe.heads import LayerWeights
from probekit.train.sampling import type_names

MOST_CLASSES = 200


def weights_by_class(weights: LayerWeights, view: FeatureView) -> dict[str, dict[int, float]]:
    """Return the mean weight of each layer over the rows of each gold class.

    Classes of tags (``B-PER``, ``I-PER``) are their types; ``O`` is one as well.

    Args:
        weights: of every row of the view, in order.
        view: the scored rows.

    Returns:
        Nothing for weights that are the same in all rows, and where there are no classes.
    """
    if weights.weights.ndim == 1 or not len(view.labels):
        return {}
    types = np.array(type_names(view.all_names))[view.targets]
    return {
        str(name): weights.select(torch.from_numpy(types == name)).by_layer()
        for name in np.unique(types)
    }


def confusion_of(view: FeatureView, predicted: np.ndarray) -> dict[str, Any] | None:
    """Return how often each gold class was predicted as which.

    Returns:
        None without classes, and with more than ``MOST_CLASSES``, which no record should hold.
    """
    types = type_names(view.all_names)
    if not 0 < len(set(types)) <= MOST_CLASSES:
        return None
    gold = Gold(ids=view.targets, offsets=view.offsets, names=view.all_names)
    rows, columns, counts = confusion(gold, predicted, types)
    return {"rows": list(rows), "columns": list(columns), "counts": counts.tolist()}
