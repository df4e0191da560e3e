"""Encode one example of an entry again, as the extraction did."""

from probekit.backbone import Backbone, encode
from probekit.data.encoded import EncodedSplit
from probekit.store.entry import Entry
from probekit.tasks import Example


def replay(backbone: Backbone, entry: Entry, example: int) -> EncodedSplit:
    """Tokenise one example of an entry and cut it into the same windows.

    Args:
        backbone: the entry's.
        entry: the entry.
        example: its place among the entry's examples.
    """
    examples, request = entry.examples, entry.manifest.request
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
