"""Rows and labels of a view as other tools take them: NumPy arrays, and a pandas table."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Int64, Shaped

from probekit.base.kinds import KINDS
from probekit.features.view import FeatureView

if TYPE_CHECKING:
    import pandas


class LayerRows(NamedTuple):
    """Rows of one layer with what they are to predict; it unpacks as ``X, y, words``.

    Attributes:
        X: the states, one row per word or text.
        y: the label of each row: a class's name, the number of a regression, the vocabulary id of
            language modelling.
        words: sentence of each row, as its place in the split, and word, as its place in the
            sentence; the word of a whole text is 0.
    """

    X: Float32[np.ndarray, "rows dim"]
    y: Shaped[np.ndarray, " rows"]
    words: Int64[np.ndarray, "rows 2"]


def layer_rows(view: FeatureView, layer: int) -> LayerRows:
    """Return the rows of one layer in float32, their labels, and which words they are of.

    Args:
        view: of a split.
        layer: a layer that is stored; 0 are the embeddings.

    Raises:
        OptionError: the layer is not stored.
    """
    states = view.array.read(view.rows, layers=[layer])[:, 0]
    return LayerRows(states.float().numpy(), labels_of(view), word_places(view))


def labels_of(view: FeatureView) -> Shaped[np.ndarray, " rows"]:
    """Return the targets under the names that users know them by."""
    if KINDS[view.kind].targets != "classes":
        return view.targets
    return np.array(view.all_names, dtype=np.str_)[view.targets]


def word_places(view: FeatureView) -> Int64[np.ndarray, "rows 2"]:
    """Return the sentence and the word of each row, as ``LayerRows.words`` has them."""
    owners = view.owners
    of_texts = KINDS[view.kind].per == "text"
    return np.stack([owners, np.zeros_like(owners) if of_texts else view.word_places], 1)


def to_frame(view: FeatureView) -> "pandas.DataFrame":
    """Return a line per row: ``id``, ``position``, ``word`` or ``text``, ``label``, ``row``.

    ``position`` is the place of the word in its sentence, or of the prediction in its text, whose
    words have no column; ``row`` that of its states in ``view.array``.
    """
    import pandas  # slow to import

    examples, positions = word_places(view).T
    ids = np.array(view.entry.examples.ids, dtype=object)
    columns: dict[str, Any] = {"id": ids[examples], "position": positions}
    if KINDS[view.kind].per == "word":
        columns["word"] = view.words
    elif KINDS[view.kind].per == "text":
        columns["text"] = view.texts
    return pandas.DataFrame({**columns, "label": labels_of(view), "row": view.rows})
