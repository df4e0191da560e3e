"""Encode one example of an entry again, as the extraction did."""

from probekit.backbone import Backbone
from probekit.data.encoded import EncodedSplit
from probekit.data.stored import encoded_of
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
        return encoded_of(ExampleTable(examples.table.slice(example, 1)))
    text, text_pair = examples.texts[example]
    again = Example(
        id=examples.ids[example], words=examples.words(example), text=text, text_pair=text_pair
    )
    return backbone.inspection.encode(
        [again], max_length=request["max_length"], overlong=request["overlong"]
    )
