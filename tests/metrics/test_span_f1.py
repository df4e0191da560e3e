"""Span F1 against seqeval, on ordinary and on broken tag sequences."""

import timeit

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

from probekit.metrics import Gold, SpanF1, encode_gold
from probekit.metrics.span_f1 import SpanFinder

NAMES = (
    *("O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC"),
    *("B", "I", "E", "S", "PER", "X", "X-PER", "L-PER", "U-LOC", ".", ".-PER", "OTHER", "O-PER"),
    *(
        "B-fare-class",
        "I-fare-class",
        "B-fare",
        "B-time:from",
        "I-time:from",
        "B-",
        "I--",
        "-",
        "_",
    ),
    *("B_PER", "I-_", "x", "ä-LOC"),
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
    assert scores["span-f1"] == f1_score(*names, zero_division=0)
    assert scores == scorer.judge(predicted.ids)
    assert list(scores) == list(scorer.judge(predicted.ids))
    assert next(iter(scores)) == SpanF1.name
    assert all(0 <= value <= 1 for value in scores.values())
    finder = SpanFinder(NAMES, gold.offsets)
    spans = finder.find(gold.ids)
    found = {
        (finder.types[kind], int(start), int(stop) - 1)
        for kind, start, stop in zip(spans.type, spans.start, spans.stop, strict=True)
    }
    assert found == set(get_entities(names[0]))


def test_hand_counted() -> None:
    gold = encode_gold(
        [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O"]], ["O", "B-PER", "I-PER", "B-LOC"]
    )
    # PER right; first LOC missed; second LOC called PER: 1 right of 2 found and 3 gold.
    scores = SpanF1(gold).score(np.array([1, 2, 0, 0, 1, 0]))
    assert scores["precision"] == 1 / 2
    assert scores["recall"] == 1 / 3
    assert scores["span-f1"] == pytest.approx(2 / 5)
    assert scores["f1/PER"] == pytest.approx(2 / 3)
    assert scores["f1/LOC"] == 0.0
    assert scores["accuracy"] == 4 / 6


def test_a_label_unseen_in_train_counts_as_missed() -> None:
    gold = encode_gold([["B-PER", "B-NEW"]], ["O", "B-PER"])
    assert gold.names == ("O", "B-PER", "B-NEW")
    scores = SpanF1(gold).score(np.array([1, 1]))
    assert (scores["precision"], scores["recall"], scores["f1/NEW"]) == (0.5, 0.5, 0.0)


def test_nothing_to_find_scores_zero_as_seqeval_does() -> None:
    scores = SpanF1(encode_gold([["O", "O"]], ["O"])).score(np.array([0, 0]))
    assert scores == {"span-f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0}


def test_a_dev_split_is_scored_much_faster_than_by_seqeval() -> None:
    rng = np.random.default_rng(0)
    names = tuple(["O", *(f"{p}-{t}" for t in ("PER", "LOC", "ORG", "MISC") for p in "BI")])
    lengths = rng.integers(5, 25, 3466)
    ids, predicted = rng.integers(0, len(names), (2, lengths.sum()))
    scorer = SpanF1(Gold(ids, np.cumsum([0, *lengths]), names))
    texts = [
        [[names[label] for label in part] for part in np.split(rows, np.cumsum(lengths)[:-1])]
        for rows in (ids, predicted)
    ]
    # All-random labels are the worst case: about 40,000 spans.
    fast = timeit.repeat(lambda: scorer.score(predicted), number=1, repeat=5)
    (slow,) = timeit.repeat(lambda: f1_score(*texts), number=1, repeat=1)
    assert 3 * min(fast) < slow
