"""Encode examples of pre-split words."""

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from probekit.data.alignment import check_word_separation, learn_specials, tokenize
from probekit.data.assembly import assemble, check_limits, cut_windows, refuse_overlong
from probekit.data.encoded import EncodedSplit


def encode_words(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[str],
    words: Sequence[Sequence[str]],
    *,
    max_length: int,
    overlong: str = "stride",
) -> EncodedSplit:
    """Tokenise pre-split examples and cut them into windows.

    Args:
        tokenizer: a fast tokenizer.
        ids: name of each example.
        words: words of each example.
        max_length: most subwords of a window, special tokens included.
        overlong: what to do with a longer example: read it in overlapping windows, cut it, or
            refuse it.

    Raises:
        BackboneError: the tokenizer is not fast, or glues pre-split words together.
        DataError: an example is too long and ``overlong`` is ``error``, or is not valid Unicode.
        OptionError: ``max_length`` leaves no room beside the special tokens, or ``overlong`` is
            none of the three.
    """
    assert len(ids) == len(words), f"{len(ids)} ids for {len(words)} examples"
    check_word_separation(tokenizer)
    specials = learn_specials(tokenizer)
    check_limits(max_length, len(specials), overlong)
    content = tokenize(tokenizer, ids, words)
    if overlong == "error":
        refuse_overlong(np.diff(content.bounds) + len(specials), ids, max_length)
    room = max_length - len(specials)
    windows = cut_windows(content, room, overlong, keep_empty=len(specials) > 0)
    return assemble(content, windows, specials, tuple(ids), np.fromiter(map(len, words), np.int64))
