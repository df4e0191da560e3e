"""Encode one example of an entry again, as the extraction did."""

import numpy as np

from probekit.backbone import Backbone, encode
from probekit.base.numbers.ragged import bounds_of
from probekit.data.encoded import EncodedSplit
from probekit.store.entry import Entry
from probekit.store.tables import ExampleTable
from probekit.tasks import Example


def replay(backbone: Backbone, entry: Entry, example: int) -> EncodedSplit:
    """Return the windows of one example of an entry: tokenised again, or as they were masked.

    Args:
        backbone: the entry's.
        entry: the entry.
        example: its place among the entry's examples.
    """
    examples, request = entry.examples, entry.manifest.request
    if examples.has("targets"):
        return _stored_blocks(examples, example)
    text, text_pair = examples.texts[example]
    again = Example(
        id=examples.ids[example], words=examples.words(example), text=text, text_pair=text_pair
    )
    return encode(
        backbone.inspection,
        [again],
        max_length=request["max_length"],
        overlong=request["overlong"],
    )


def _stored_blocks(examples: ExampleTable, example: int) -> EncodedSplit:
    """Return the blocks of a text for language modelling; ``word_map`` numbers what predicts."""
    subwords, word_map, windows = (
        np.array(examples.table[name][example].as_py(), np.int32)
        for name in ("subwords", "word_map", "windows")
    )
    bounds = bounds_of(windows)
    places = np.flatnonzero(word_map >= 0)
    window = np.searchsorted(bounds, places, side="right") - 1
    position = (places - bounds[window]).astype(np.int32)
    return EncodedSplit(
        ids=(examples.ids[example],),
        subwords=subwords,
        word_map=word_map,
        window_lengths=windows,
        example_windows=np.array([0, len(windows)]),
        example_words=np.array([0, len(places)]),
        word_window=window.astype(np.int32),
        word_first=position,
        word_last=position,
        truncated_words=0,
    )
