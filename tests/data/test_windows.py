"""Windows cover a long text, keep words whole, overlap by a quarter and fit the model."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.data.windows import stride, truncate

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
