"""What the model reads of a split: its words, its texts, or blocks with tokens to predict."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from probekit.backbone import Inspection, encode
from probekit.data.encoded import EncodedSplit
from probekit.data.predicted import encode_predicted
from probekit.errors import DataError
from probekit.extraction.request_options import ExtractOptions
from probekit.tasks import Split


def read_split(
    inspection: Inspection,
    split: Split,
    options: ExtractOptions,
    *,
    max_length: int,
    masking: Mapping[str, Any] | None,
) -> EncodedSplit:
    """Tokenise a split and cut it into windows.

    Args:
        inspection: of the model.
        split: the examples.
        options: what is asked for.
        max_length: most subwords of a window, special tokens included.
        masking: what is predicted (``modelling.masking_request``); None for other tasks.

    Raises:
        BackboneError: the tokenizer does not fit the form of prediction.
        DataError: an example cannot be read, or no token is predicted.
        OptionError: ``max_length`` leaves no room for text.
    """
    if masking is None:
        return encode(inspection, split.examples, max_length=max_length, overlong=options.overlong)
    encoded, targets = encode_predicted(
        inspection.text_tokenizer,
        [example.id for example in split.examples],
        [example.text or "" for example in split.examples],
        max_length=max_length,
        form=masking["form"],
        every=masking.get("every", 1),
        passes=masking.get("passes", 1),
        seed=masking.get("seed", 0),
    )
    if not len(targets):
        every = f", every {masking['every']}th position (--every)" if "every" in masking else ""
        raise DataError(
            f"{split.origin}: no token is predicted{every}; the texts of {split.name} are too "
            "short or too few."
        )
    return replace(encoded, targets=targets)
