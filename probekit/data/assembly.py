"""Cut tokenised examples into windows and put them together as an ``EncodedSplit``."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int32, Int64

from probekit.base.numbers.ragged import bounds_of, ragged_arange
from probekit.data.encoded import EncodedSplit, Specials, Subwords
from probekit.data.windows import Windows, cut_windows, refuse_overlong

# Two sentences, one of them in two windows: "a b" and "c dd e f", where dd is the subwords d and ~d
# and a window has room for four subwords between the special tokens [ and ].
#
#     content.ids        a b | c  d ~d  e  f           content.words   0 1 | 0 1 1 2 3
#     windows.start      0 | 2 5                       windows.stop    2 | 6 7
#     subwords           [ a b ] | [ c d ~d e ]   [ e f ]
#     word_map          -1 0 1 -1 | -1 0 1 1 2 -1   -1 2 3 -1
#     window_lengths     4 | 6 4                       example_windows 0 1 3
#
# There are two words of the first sentence and four of the second: example_words is 0 2 6. The word
# e lies in two windows, at an edge of both, so the first one gives its row; f only in the last.
#
#     word_places.window 0 0 | 1 1 1 2
#     word_places.first  1 2 | 1 2 4 2                 word_places.last 1 2 | 1 3 4 2
#
# The mean of the second sentence reads e once, and of the special tokens the first and the last:
#
#     averaged           1 1 1 1 | 1 1 1 1 1 0   0 0 1 1


def encode_content(
    content: Subwords,
    specials: Specials,
    ids: Sequence[str],
    *,
    max_length: int,
    overlong: str,
    n_words: Int64[np.ndarray, " examples"] | None = None,
) -> EncodedSplit:
    """Cut tokenised examples into windows and put them together.

    Args:
        content: the subwords, without special tokens.
        specials: what goes around each window.
        ids: name of each example.
        max_length: most subwords of a window, special tokens included.
        overlong: what to do with a longer example: ``stride``, ``truncate`` or ``error``.
        n_words: words of each example, those without subwords included; None for running texts,
            whose words are the tokenizer's and have no rows.

    Raises:
        DataError: an example is too long and ``overlong`` is ``error``.
    """
    if overlong == "error":
        refuse_overlong(content.lengths + len(specials), ids, max_length)
    room = max_length - len(specials)
    windows = cut_windows(content, room, overlong, keep_empty=len(specials) > 0)
    cut = {"truncated_words": windows.truncated_words}
    if n_words is None:
        cut_texts = int((content.lengths > room).sum()) if overlong == "truncate" else 0
        cut = {"truncated_words": 0, "truncated_examples": cut_texts}
        n_words = np.zeros(len(ids), np.int64)
    return assemble(content, windows, specials, ids, n_words, cut=cut)


def assemble(
    content: Subwords,
    windows: Windows,
    specials: Specials,
    ids: Sequence[str],
    n_words: Int64[np.ndarray, " examples"],
    *,
    cut: Mapping[str, int],
    targets: Int32[np.ndarray, " words"] | None = None,
) -> EncodedSplit:
    """Put special tokens around the windows.

    Args:
        content: the subwords, without special tokens.
        windows: made of them.
        specials: what goes around each window.
        ids: name of each example.
        n_words: words of each example that have rows.
        cut: see ``EncodedSplit``.
        targets: for language modelling, what each row is to predict.
    """
    inner = windows.stop - windows.start
    source = ragged_arange(windows.start, inner)
    lengths = (inner + len(specials)).astype(np.int32)
    bounds = bounds_of(lengths)
    place = ragged_arange(bounds[:-1] + len(specials.prefix), inner)
    subwords = np.empty(bounds[-1], np.int32)
    subwords[place] = content.ids[source]
    for offset, special in enumerate(specials.prefix):
        subwords[bounds[:-1] + offset] = special
    for offset, special in enumerate(reversed(specials.suffix), start=1):
        subwords[bounds[1:] - offset] = special
    word_map = np.full(bounds[-1], -1, np.int32)
    word_map[place] = content.words[source]
    return EncodedSplit(
        ids=tuple(ids),
        subwords=subwords,
        word_map=word_map,
        window_lengths=lengths,
        example_windows=bounds_of(windows.per_example),
        example_words=bounds_of(n_words),
        targets=targets,
        cut=cut,
    )
