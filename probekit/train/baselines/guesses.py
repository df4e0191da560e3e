"""What guesses labels: a constant answer, word types, length, bag of words, TF-IDF.

And in an audit the probe itself, on texts of which a part is removed.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from probekit.base.kinds import KINDS
from probekit.data.token_choice import TokenChoice
from probekit.errors import RecordError
from probekit.features import FeatureView, Location
from probekit.features.rows import CachedRows
from probekit.tasks.conversations import messages_of
from probekit.train.saved.head import TrainedHead
from probekit.train.saved.labelling import predict
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec

Guess = Callable[[FeatureView], np.ndarray]
"""From a view to what the task's metric consumes: a class, value or loss per row, or scores."""

Guesser = Callable[[FeatureView], Guess]
"""Learns to guess from the rows that a probe would be trained on."""

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""scikit-learn's C of a logistic regression, of which folds of train choose one."""

LEAVES = (2, 4, 8, 16, 32)
"""Leaves of a tree over lengths, likewise."""

_FOLDS = 5


def majority(train: FeatureView) -> Guess:
    """Guess the same for every row.

    That is the most frequent class of train (the first by name among equals), the mean value for a
    regression, and for language modelling the frequencies of the vocabulary in train, with one
    added to each. Of sets of labels the scores are the log odds of each label in train, so that a
    label is given to all texts where more than half of train's have it.

    Args:
        train: the rows that a probe would be trained on.
    """
    targets = KINDS[train.kind].targets
    if targets == "numbers":
        mean = float(train.targets.mean())
        return lambda view: np.full(len(view), mean)
    if targets == "vocabulary":
        counts = np.bincount(train.targets, minlength=train.n_outputs) + 1.0
        losses = -np.log(counts / counts.sum())
        return lambda view: losses[view.targets]
    if targets == "sets":
        shares = train.targets[:, : len(train.labels)].mean(0, dtype=np.float64)
        shares = shares.clip(1e-12, 1 - 1e-12)
        return lambda view: np.tile(np.log(shares / (1 - shares)), (len(view), 1))
    common = int(np.bincount(train.targets, minlength=len(train.labels)).argmax())
    return lambda view: np.full(len(view), common, np.int64)


def memorised(train: FeatureView) -> Guess:
    """Guess for every word or span the class that its text had most often in train.

    A word that train does not have gets the most frequent class of train (which is what makes the
    majority's span F1 zero and this one's not).

    Args:
        train: words and their classes.
    """
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for word, target in zip(train.words, train.targets.tolist(), strict=True):
        counts[word][target] += 1
    common = int(np.bincount(train.targets, minlength=len(train.labels)).argmax())
    # of the counts {2: 3, 1: 3, 0: 1}: class 1, the smallest of equals
    best = {word: min(n, key=lambda target: (-n[target], target)) for word, n in counts.items()}
    return lambda view: np.array([best.get(word, common) for word in view.words], np.int64)


def all_labels(train: FeatureView) -> Guess:
    """Give all texts all labels of train: of what ignores the text, this has the best F1.

    A label that a share p of texts have gets 2 p / (1 + p), and if drawn for that share of them p.

    Args:
        train: texts with sets of labels.
    """
    return lambda view: np.ones((len(view), len(train.labels)))


GUESSES: Mapping[str, Guesser] = {
    "majority": majority,
    "memorised": memorised,
    "all labels": all_labels,
}


def _read(view: FeatureView) -> list[str]:
    return [text if isinstance(text, str) else " ".join(text) for text in view.texts]


def _sizes(texts: Sequence[str]) -> np.ndarray:
    """Return the number of characters and of words of each text."""
    return np.array([(len(text), len(text.split())) for text in texts], np.float64)


def _fitted(train: FeatureView, reader: Any, model: Any, grid: Mapping[str, Any]) -> Guess:
    """Fit a model to what a reader makes of the texts of train.

    Args:
        train: texts and their classes.
        reader: makes columns of texts, as scikit-learn knows estimators.
        model: a classifier.
        grid: by option (``model__C``) the values of which folds of train choose one; with a single
            example of a class the model stays as it is.
    """
    from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
    from sklearn.pipeline import Pipeline

    pipeline: Any = Pipeline([("reader", reader), ("model", model)])
    texts = _read(train)
    # equal texts, or those of a group, are never on both sides of a fold
    groups = np.unique(texts, return_inverse=True)[1] if train.groups is None else train.groups
    of_class = [len(np.unique(groups[train.targets == n])) for n in np.unique(train.targets)]
    if (folds := min(_FOLDS, *of_class)) > 1:
        search = GridSearchCV(pipeline, dict(grid), cv=StratifiedGroupKFold(folds))
        pipeline = search.fit(texts, train.targets, groups=groups)
    else:
        pipeline.fit(texts, train.targets)
    return lambda view: np.asarray(pipeline.predict(_read(view)), np.int64)


def _linear(train: FeatureView, reader: Any) -> Guess:
    from sklearn.linear_model import LogisticRegression

    return _fitted(train, reader, LogisticRegression(max_iter=10_000), {"model__C": STRENGTHS})


def length(train: FeatureView) -> Guess:
    """Read how long a text is, in characters and in words."""
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES[1], random_state=0)
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


TEXT_READERS: Mapping[str, Guesser] = {
    "length": length,
    "bag of words": bag_of_words,
    "tf-idf": tf_idf,
}


def trained_again(spec: TrainSpec, key: str, location: Location, device: str) -> TrainedHead:
    """Train a run of a frozen model as its record says; return its head.

    Args:
        spec: of the run.
        key: of its record.
        location: where entries and labels lie.
        device: what computes.

    Raises:
        RecordError: it would be another run.
    """
    with TemporaryDirectory() as folder:
        out, saved = Path(folder, "runs.jsonl"), Path(folder, "head")
        (record,) = sweep(spec, out=out, location=location, save=saved, device=device)
        if record.key != key:
            raise RecordError(
                "--without trains the probe again, and this one cannot be: it started from a saved "
                "head, or its features or labels have changed. Train it anew, with --predictions."
            )
        return TrainedHead.from_pretrained(saved)


def reads_without(rule: TokenChoice, probe: Callable[[], TrainedHead], device: str) -> Guesser:
    """Return what a probe says of texts without a part, as a reader of an audit.

    Texts that do not change keep their cached rows.

    Args:
        rule: what is removed, see `without_part`.
        probe: returns the probe; called where it is needed.
        device: what computes.
    """

    def guess(view: FeatureView) -> np.ndarray:
        texts, head = view.texts, probe()
        cut = [without_part(text, rule) for text in texts]
        again = list(range(len(cut)))
        said: dict[int, Any] = {}
        if head.reads == "rows":
            blocks = CachedRows.of(view, head.layers).blocks(head.layers)
            said = dict(enumerate(label for z in blocks for label in head.predict(z)))
            again = [n for n in again if cut[n] != texts[n]]
        if again:
            said |= zip(again, predict(head, [cut[n] for n in again], device=device), strict=True)
        numbers = {name: number for number, name in enumerate(view.labels.names)}
        return np.array([numbers[said[n]] for n in range(len(cut))], np.int64)

    return lambda train: guess


def without_part(text: str | tuple[str, ...], rule: TokenChoice) -> str | tuple[str, ...]:
    """Return a text, or both of a pair, without what a rule matches.

    Of a conversation that is in the content of its messages, or messages of a role. A text of which
    nothing would be left stays whole.
    """
    if not isinstance(text, str):
        return tuple(str(without_part(part, rule)) for part in text)
    messages = messages_of(text)
    if messages is None:
        left = _cut(text, rule)
        return left if left.strip() else text
    parts = [
        {**message, "content": message["content"] and _cut(message["content"], rule)}
        for message in messages
        if message["role"] != rule.role
    ]
    same = parts == messages or not any((part["content"] or "").strip() for part in parts)
    return text if same else json.dumps(parts, ensure_ascii=False)


def _cut(text: str, rule: TokenChoice) -> str:
    pieces, end = [], 0
    for start, stop in rule.stretches(text):
        pieces.append(text[end:start])
        end = stop
    return "".join([*pieces, text[end:]])
