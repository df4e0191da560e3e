"""Windows cover a text, and place every word where a slow, literal reading of the rules does."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.data.texts import encode_words, learn_specials
from probekit.data.windows import stride, truncate
from probekit.errors import BackboneError, DataError, OptionError, UnknownNameError
from tests import tiny
from tests.data.samples import SENTENCES, TOKENIZERS, spell, tokenizer


def _encode(name, sentences, **options):
    ids = [f"dev-{i}" for i in range(len(sentences))]
    return encode_words(tokenizer(name), ids, sentences, **options)


def _example(split, i):
    """Return example i's windows as lists of (subword id, word)."""
    pairs = list(zip(split.subwords.tolist(), split.word_map.tolist(), strict=True))
    first, last = split.example_windows[i], split.example_windows[i + 1]
    bounds = split.window_bounds
    return [pairs[bounds[w] : bounds[w + 1]] for w in range(first, last)]


def _expected_place(windows, word):
    """Try every window that holds the word; prefer depth, then the earlier one."""
    best, deepest = (-1, -1, -1), -1
    for number, window in enumerate(windows):
        content = [i for i, (_, owner) in enumerate(window) if owner >= 0]
        mine = [i for i, (_, owner) in enumerate(window) if owner == word]
        if mine:
            depth = min(mine[0] - content[0], content[-1] - mine[-1])
            if depth > deepest:
                best, deepest = (number, mine[0], mine[-1]), depth
    return best


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=30)
@given(
    overlong=st.sampled_from(["stride", "truncate"]), sentences=SENTENCES, room=st.integers(1, 40)
)
def test_split_follows_the_rules(name, overlong, sentences, room):
    specials = learn_specials(tokenizer(name))
    limit = room + len(specials)
    split = _encode(name, sentences, max_length=limit, overlong=overlong)
    rows = split.example_words
    assert np.diff(rows).tolist() == [len(words) for words in sentences]
    truncated = 0
    for i, words in enumerate(sentences):
        windows = _example(split, i)
        ids, owners = spell(tokenizer(name), words)
        whole = [(t, w) for t, w in zip(ids, owners, strict=True) if w >= 0]
        for window in windows:
            assert 0 < len(window) <= limit
            inner = window[len(specials.prefix) : len(window) - len(specials.suffix)]
            assert window[: len(specials.prefix)] == [(t, -1) for t in specials.prefix]
            assert window[len(window) - len(specials.suffix) :] == [
                (t, -1) for t in specials.suffix
            ]
            places = range(len(whole) - len(inner) + 1)
            assert any(whole[k : k + len(inner)] == inner for k in places)
        if len(ids) <= limit:
            assert [t for window in windows for t, _ in window] == ids
        for word in range(len(words)):
            row = rows[i] + word
            number, first, last = _expected_place(windows, word)
            found = tuple(column[row] for column in split.word_places)
            expected = number + split.example_windows[i] if number >= 0 else -1, first, last
            assert found == expected
            size = owners.count(word)
            assert split.valid[row] == (number >= 0)
            if overlong == "stride":
                assert split.valid[row] == (size > 0)
                assert (last - first + 1 if size else 0) == min(size, room)
            truncated += size > 0 and (number < 0 or last - first + 1 < size)
    assert split.counts["truncated_words"] == truncated


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_counts(name):
    words = [["EU", "", "rejects"], [], ["\x07" if name == "bert" else ""], ["call"] * 30]
    split = _encode(name, words, max_length=24)
    assert split.counts == {
        "examples": 4, "words": 34, "valid_words": 32, "tokens": len(split.subwords),
        "windows": len(split.window_lengths), "truncated_words": 0,
    }  # fmt: skip
    assert {key: split.rows[key].sum() for key in ("words", "tokens", "mean")} == {
        "words": 34,
        "tokens": len(split.subwords),
        "mean": 4,
    }
    windows = np.diff(split.example_windows)
    assert windows[1] == windows[2] == (1 if name == "bert" else 0)  # no window without subwords
    assert windows[3] > 1
    none = _encode(name, [], max_length=10)
    assert none.counts == dict.fromkeys(split.counts, 0)


def test_overlong_error_names_example_length_and_limit():
    words = [["EU"], ["call"] * 30, ["call"] * 20]
    subwords = len(spell(tokenizer("bert"), words[1])[0])
    message = rf"example dev-1 has {subwords} .* limit of 20 \(1 more are .* --overlong stride"
    with pytest.raises(DataError, match=message):
        _encode("bert", words, max_length=20, overlong="error")
    fits = _encode("bert", words, max_length=subwords, overlong="error")
    assert fits.counts["windows"] == 3


def test_what_cannot_be_used():
    with pytest.raises(OptionError, match=r"--max-length 2 leaves no room .* at least 3"):
        _encode("bert", [["EU"]], max_length=2)
    with pytest.raises(UnknownNameError, match=r"'cut'\. Choose from: error, stride, truncate"):
        _encode("bert", [["EU"]], max_length=9, overlong="cut")
    with pytest.raises(BackboneError, match="glues"):
        encode_words(tiny.tokenizer_of("gpt2"), ["a"], [["EU", "rejects"]], max_length=9)


LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=60)
ROOMS = st.integers(1, 30)


def _bounds(lengths):
    return np.cumsum([0, *lengths])


@settings(max_examples=60)
@given(lengths=LENGTHS, room=ROOMS)
def test_stride_keeps_words_whole_and_covers_the_text(lengths, room):
    bounds = _bounds(lengths)
    spans, truncated = stride(bounds, room)
    starts = set(bounds.tolist())
    for start, stop in spans:
        assert 0 < stop - start <= room
        assert start in starts
    for start, stop in pairwise(bounds):
        holders = [s for s in spans if s[0] <= start and stop <= s[1]]
        touching = [s for s in spans if s[0] < stop and start < s[1]]
        assert holders == touching or (stop - start > room and touching == [(start, start + room)])
    assert truncated == sum(length > room for length in lengths)


@settings(max_examples=60)
@given(lengths=LENGTHS, room=ROOMS)
def test_stride_advances_and_overlaps_as_far_as_it_may(lengths, room):
    bounds = _bounds(lengths)
    for (start, stop), (next_start, next_stop) in pairwise(stride(bounds, room)[0]):
        assert start < next_start and stop < next_stop
        overlap = max(0, stop - next_start)
        assert overlap <= room // 4
        if stop not in bounds:
            continue  # a word that was cut has a window of its own
        k = int(np.searchsorted(bounds, next_start))
        new_word = int(bounds[np.searchsorted(bounds, stop) + 1])  # end of the first new word
        one_more = bounds[k - 1]
        assert stop - one_more > room // 4 or new_word - one_more > room


def test_stride_of_single_subwords_is_exact():
    assert stride(_bounds([1] * 20), 8) == (((0, 8), (6, 14), (12, 20)), 0)


@settings(max_examples=60)
@given(lengths=LENGTHS, room=ROOMS)
def test_truncate_keeps_the_words_that_fit(lengths, room):
    cut = truncate(_bounds(lengths), room)
    fitting = sum(int(end) <= room for end in np.cumsum(lengths))
    stop = sum(lengths[:fitting]) or room
    assert cut == (((0, stop),), len(lengths) - fitting)
