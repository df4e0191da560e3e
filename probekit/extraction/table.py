"""The example table of an entry: texts, their rows in every array, and the model's input."""

from typing import Any

import numpy as np

from probekit.data.columns import input_columns, ragged_column
from probekit.data.units import example_row_starts
from probekit.extraction.plan import Plan
from probekit.pooling import POOLED
from probekit.store.tables import ExampleTable
from probekit.tasks import Split


def example_table(split: Split, plan: Plan) -> ExampleTable:
    """Return the examples with their rows and subwords; -1 where an array was not kept."""
    encoded = plan.encoded
    starts = example_row_starts(plan.units, {name: encoded.rows[name] for name in plan.arrays})
    absent = np.full(len(encoded.ids), -1, np.int64)
    columns = {
        **input_columns(encoded),
        "words": [list(example.words) for example in split.examples],
        "row_start": starts.get("words", absent),
        "token_start": starts.get("tokens", absent),
    }
    return ExampleTable.from_columns(columns | _optional_columns(split, plan, starts))


def _optional_columns(split: Split, plan: Plan, starts: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the columns that this entry needs beyond those of every entry."""
    encoded = plan.encoded
    columns: dict[str, Any] = {}
    for name in ("text", "text_pair"):
        texts = [getattr(example, name) for example in split.examples]
        if any(text is not None for text in texts):
            columns[name] = texts
    pooled = next((name for name in plan.arrays if name in POOLED), None)
    if pooled is not None:
        columns["pooled_start"] = starts[pooled]
    if encoded.token_types is not None:
        columns["token_types"] = ragged_column(encoded.token_types, encoded.example_tokens)
    return columns
