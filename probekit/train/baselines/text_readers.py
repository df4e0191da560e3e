"""Readers of whole texts that need no model: their length, a bag of words, TF-IDF."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from probekit.features import FeatureView

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Guess = Callable[[FeatureView], np.ndarray]
"""From a view to what the task's metric consumes: a class, value or loss per row, or scores."""

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""scikit-learn's C of a logistic regression, of which folds of train choose one."""

LEAVES = (2, 4, 8, 16, 32)
"""Leaves of a tree over lengths, likewise."""

_FOLDS = 5


def _read(view: FeatureView) -> list[str]:
    return [text if isinstance(text, str) else " ".join(text) for text in view.texts]


def _sizes(texts: Sequence[str]) -> np.ndarray:
    """Return the number of characters and of words of each text."""
    return np.array([(len(text), len(text.split())) for text in texts], np.float64)


def _fitted(
    train: FeatureView, reader: "BaseEstimator", model: "BaseEstimator", grid: Mapping[str, Any]
) -> Guess:
    """Fit a model to what a reader makes of the texts of train; folds choose from the grid."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline

    pipeline: Any = Pipeline([("reader", reader), ("model", model)])
    folds = min(_FOLDS, int(np.unique(train.targets, return_counts=True)[1].min()))
    if folds > 1:
        pipeline = GridSearchCV(pipeline, dict(grid), cv=folds)
    pipeline.fit(_read(train), train.targets)
    return lambda view: np.asarray(pipeline.predict(_read(view)), np.int64)


def _linear(train: FeatureView, reader: "BaseEstimator") -> Guess:
    from sklearn.linear_model import LogisticRegression

    return _fitted(train, reader, LogisticRegression(max_iter=10_000), {"model__C": STRENGTHS})


def length(train: FeatureView) -> Guess:
    """Read how long a text is, in characters and in words."""
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(random_state=0)
    return _fitted(train, FunctionTransformer(_sizes), tree, {"model__max_leaf_nodes": LEAVES})


def bag_of_words(train: FeatureView) -> Guess:
    """Read which words a text has, wherever they stand."""
    from sklearn.feature_extraction.text import CountVectorizer

    return _linear(train, CountVectorizer(binary=True, token_pattern=r"(?u)\S+"))


def tf_idf(train: FeatureView) -> Guess:
    """Read words and pairs of neighbours, weighted by how rare they are in train."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\S+")
    return _linear(train, words)


TEXT_READERS: Mapping[str, Callable[[FeatureView], Guess]] = {
    "length": length,
    "bag of words": bag_of_words,
    "tf-idf": tf_idf,
}
