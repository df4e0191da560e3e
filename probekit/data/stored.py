"""An encoded split as the columns of an example table, and read back from them."""

from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int64

from probekit.base.numbers.ragged import Ragged, bounds_of
from probekit.data.encoded import EncodedSplit
from probekit.store.tables import ExampleTable


def columns_of(encoded: EncodedSplit) -> dict[str, Any]:
    """Return the columns that say what the model reads, and how many rows each example has."""
    columns = {
        "id": list(encoded.ids),
        "n_rows": encoded.rows["words"].astype(np.int32),
        "valid": _column(encoded.valid, encoded.example_words),
        "n_tokens": encoded.rows["tokens"].astype(np.int32),
        "subwords": _column(encoded.subwords, encoded.example_tokens),
        "word_map": _column(encoded.word_map, encoded.example_tokens),
        "windows": _column(encoded.window_lengths, encoded.example_windows),
    }
    if encoded.token_types is not None:
        columns["token_types"] = _column(encoded.token_types, encoded.example_tokens)
    if encoded.targets is not None:
        columns["targets"] = _column(encoded.targets, encoded.example_words)
    return columns


def encoded_of(examples: ExampleTable) -> EncodedSplit:
    """Return the split whose columns a table holds; how much was cut is not among them."""

    def flat(name: str) -> np.ndarray:
        return examples.flat(name).astype(np.int32)

    return EncodedSplit(
        ids=examples.ids,
        subwords=flat("subwords"),
        word_map=flat("word_map"),
        window_lengths=flat("windows"),
        example_windows=window_lengths(examples).bounds,
        example_words=bounds_of(examples.n_rows),
        token_types=flat("token_types") if examples.has("token_types") else None,
        targets=flat("targets") if examples.has("targets") else None,
    )


def window_lengths(examples: ExampleTable) -> Ragged:
    """Return the subwords of each window, example by example."""
    lengths = examples.table["windows"].combine_chunks().value_lengths()
    counts = lengths.to_numpy(zero_copy_only=False)
    return Ragged(examples.flat("windows").astype(np.int64), bounds_of(counts))


def _column(values: np.ndarray, bounds: Int64[np.ndarray, " bounds"]) -> pa.Array:
    """Return a list column: example i holds ``values[bounds[i]:bounds[i + 1]]``."""
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(values))
