"""Span F1 against seqeval, on ordinary and on broken tag sequences."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import (
    accuracy_score,
    get_entities,
    precision_recall_fscore_support,
)

from probekit.metrics import Gold, SpanF1, encode_gold
from probekit.metrics.span_f1 import SpanFinder

NAMES = (
    *("O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC"),
    *("B", "I", "E", "S", "PER", "X", "X-PER", "L-PER", "U-LOC", ".", ".-PER", "OTHER", "O-PER"),
    *("B-fare-class", "I-fare-class", "B-fare", "B-time:from", "I-time:from"),
    *("B-", "I--", "-", "_", "B_PER", "I-_", "x", "ä-LOC"),
)

labellings = st.lists(
    st.lists(st.tuples(*[st.integers(0, len(NAMES) - 1)] * 2), max_size=8), min_size=1, max_size=6
).filter(lambda sentences: any(sentences))


def to_gold(sentences: list[list[int]]) -> Gold:
    offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    return Gold(np.concatenate(sentences).astype(np.int64), offsets, NAMES)


@pytest.mark.filterwarnings("ignore")  # seqeval warns about labels without a prefix
@settings(max_examples=200)
@given(labellings)
@example([[(1, 2), (2, 2)]])
@example([[(12, 12)], [(12, 12), (2, 2)]])
@example([[(1, 1)], [(2, 0)]])  # a span ends with its sentence
def test_scores_and_spans_equal_seqevals(sentences: list[list[tuple[int, int]]]) -> None:
    gold = to_gold([[pair[0] for pair in s] for s in sentences])
    predicted = to_gold([[pair[1] for pair in s] for s in sentences])
    scorer = SpanF1(gold)
    scores = scorer.score(predicted.ids)
    names = [[[NAMES[p[side]] for p in s] for s in sentences] for side in (0, 1)]
    precision, recall, f1, _ = precision_recall_fscore_support(
        *names, average="micro", zero_division=0
    )
    per_type = precision_recall_fscore_support(*names, average=None, zero_division=0)[2]
    types = sorted({kind for side in names for kind, _, _ in get_entities(side)})
    expected = {SpanF1.name: f1, "precision": precision, "recall": recall}
    expected |= {"accuracy": accuracy_score(*names)}
    expected |= {f"f1/{kind}": value for kind, value in zip(types, per_type, strict=True)}
    assert list(scores.items()) == list(expected.items())
    assert all(0 <= value <= 1 for value in scores.values())
    finder = SpanFinder(NAMES, gold.offsets)
    spans = finder.find(gold.ids)
    found = {
        (finder.types[kind], int(start), int(stop) - 1)
        for kind, start, stop in zip(spans.type, spans.start, spans.stop, strict=True)
    }
    assert found == set(get_entities(names[0]))


def test_a_label_unseen_in_train_counts_as_missed() -> None:
    gold = encode_gold([["B-PER", "B-NEW"]], ["O", "B-PER"])
    assert gold.names == ("O", "B-PER", "B-NEW")
    scores = SpanF1(gold).score(np.array([1, 1]))
    assert (scores["precision"], scores["recall"], scores["f1/NEW"]) == (0.5, 0.5, 0.0)
