"""Which subwords make up a row, against a loop over examples."""

import numpy as np
import pytest

from probekit.data.encoded import encoded_of, row_sources, window_lengths
from tests.data.samples import encode, table_of
from tests.extraction.passages import passages

POOLINGS = ("first", "last", "mean")
DELETED = "\u200b"  # by the WordPiece tokenizer


def sentences(count=14):
    found = [text.split() for text in passages(count)]
    found[2] = []
    found[3][4:6] = [DELETED, DELETED]
    found[5] = [DELETED]
    found[6][0] = found[6][-1] = DELETED
    found[7][10] = "unbelievable" * 6  # longer than a small window
    return found


def stored(form, name, max_length, overlong="stride"):
    return table_of(encode(form, name, sentences(), max_length, overlong))


def examples_of(table):
    rows = table.table.select(["word_map", "windows", "n_rows"]).to_pylist()
    return [(row["word_map"], row["windows"], row["n_rows"]) for row in rows]


def windows_of(word_map, windows):
    """Each window of an example as its positions, and the first and last of its content."""
    start = 0
    for length in windows:
        places = list(range(start, start + length))
        inside = [place for place in places if word_map[place] >= 0]
        yield places, inside
        start += length


def chosen_places(word, word_map, windows):
    """Positions of a word in the window where it lies farthest from an edge, the first of equals.

    Positions count within the example; specials are no content.
    """
    best, depth = [], -1
    for _, inside in windows_of(word_map, windows):
        own = [place for place in inside if word_map[place] == word]
        if own and (found := min(own[0] - inside[0], inside[-1] - own[-1])) > depth:
            best, depth = own, found
    return best


def slow_words(table, pooling):
    pick = {"first": lambda own: own[:1], "last": lambda own: own[-1:], "mean": lambda own: own}
    return [
        pick[pooling](chosen_places(word, word_map, windows))
        for word_map, windows, n_words in examples_of(table)
        for word in range(n_words)
    ]


def slow_texts(table, array):
    found = []
    for word_map, windows, _ in examples_of(table):
        places = list(range(len(word_map)))
        if array != "mean":
            found.append(places[:1] if array == "cls" else places[-1:])
            continue
        if len(windows) < 2:
            found.append(places)
            continue
        parts = list(windows_of(word_map, windows))
        (first, first_inside), (last, last_inside) = parts[0], parts[-1]
        keep = [place for place in first if place < first_inside[0]]
        keep += [place for place in last if place > last_inside[-1]]
        for word in sorted({word for word in word_map if word >= 0}):
            keep += chosen_places(word, word_map, windows)
        found.append(sorted(keep))
    return found


def runs_of(ragged):
    return [run.tolist() for run in np.split(ragged.values, ragged.bounds[1:-1])]


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "llama"])
@pytest.mark.parametrize("max_length", [9, 14, 64, 400])
@pytest.mark.parametrize("overlong", ["stride", "truncate"])
def test_words_equal_a_loop_over_examples(kind, max_length, overlong):
    table = stored("words", kind, max_length, overlong)
    if overlong == "stride" and max_length < 20:
        assert max(len(windows) for _, windows, _ in examples_of(table)) > 3
    split = encoded_of(table)
    for pooling in POOLINGS:
        assert runs_of(row_sources(split, "words", pooling)) == slow_words(table, pooling)


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "llama"])
@pytest.mark.parametrize("max_length", [9, 14, 400])
@pytest.mark.parametrize("what", ["texts", "pairs", "words"])
def test_rows_of_texts_equal_a_loop_over_examples(kind, max_length, what):
    table = stored(what, kind, max_length)
    split = encoded_of(table)
    for array in ("cls", "last", "mean"):
        assert runs_of(row_sources(split, array, "first")) == slow_texts(table, array), array


def test_there_are_texts_without_any_subword():
    """GPT-2's tokenizer has no special tokens, so an empty text has none at all."""
    table = stored("words", "gpt2", 64)
    assert table.n_tokens[2] == 0
    for array in ("cls", "last", "mean"):
        assert row_sources(encoded_of(table), array, "first").lengths[2] == 0
    assert window_lengths(table).lengths.tolist() == [len(w) for _, w, _ in examples_of(table)]


def test_deleted_words_are_made_of_nothing():
    table = stored("words", "bert", 14)
    sources = row_sources(encoded_of(table), "words", "mean")
    assert (sources.lengths == 0).tolist() == (~table.valid).tolist()
    assert (~table.valid).sum() >= 5
