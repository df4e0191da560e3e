"""An encoded split as the columns of an example table."""

from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int64

from probekit.data.encoded import EncodedSplit


def input_columns(encoded: EncodedSplit) -> dict[str, Any]:
    """Return the columns that say what the model reads, and how many rows each example has."""
    return {
        "id": list(encoded.ids),
        "n_rows": encoded.rows["words"].astype(np.int32),
        "valid": ragged_column(encoded.valid, encoded.example_words),
        "n_tokens": encoded.rows["tokens"].astype(np.int32),
        "subwords": ragged_column(encoded.subwords, encoded.example_tokens),
        "word_map": ragged_column(encoded.word_map, encoded.example_tokens),
        "windows": ragged_column(encoded.window_lengths, encoded.example_windows),
    }


def ragged_column(values: np.ndarray, bounds: Int64[np.ndarray, " bounds"]) -> pa.Array:
    """Return a list column: example i holds ``values[bounds[i]:bounds[i + 1]]``."""
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(values))
