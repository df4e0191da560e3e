"""Encode the examples of a task for a model, with the tokenizer that fits them."""

from collections.abc import Sequence

from probekit.backbone.facts import Inspection
from probekit.data.encoded import EncodedSplit
from probekit.data.example_reading import encode_examples
from probekit.tasks import Example


def encode(
    inspection: Inspection, examples: Sequence[Example], *, max_length: int | None, overlong: str
) -> EncodedSplit:
    """Tokenise examples and cut them into windows.

    Args:
        inspection: of the model.
        examples: all of words, all of one text, or all of two.
        max_length: most subwords of a window, special tokens included; None is the model's limit.
        overlong: ``stride``, ``truncate`` or ``error``.

    Raises:
        BackboneError: the tokenizer glues words together.
        DataError: an example is too long and ``overlong`` is ``error``, or is not valid Unicode.
        OptionError: ``max_length`` leaves no room for text.
    """
    of_words = not examples or examples[0].text is None
    return encode_examples(
        inspection.tokenizer if of_words else inspection.text_tokenizer,
        examples,
        max_length=max_length or inspection.info.max_length,
        overlong=overlong,
        token_types=inspection.info.identity.token_types,
    )
