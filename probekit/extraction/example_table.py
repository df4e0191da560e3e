"""The example table of an entry: texts, their rows in every array, and the model's input."""

from collections.abc import Mapping, Sequence

import numpy as np

from probekit.data.stored import columns_of
from probekit.extraction.plan import Plan
from probekit.extraction.units import example_row_starts
from probekit.store.tables import STARTS, ExampleTable
from probekit.tasks import Example, Split


def example_table(split: Split, plan: Plan) -> ExampleTable:
    """Return the examples with their rows and subwords; -1 where an array was not kept."""
    encoded = plan.encoded
    examples = _repeated(split.examples, len(encoded.ids))
    starts = example_row_starts(plan.units, {name: encoded.rows[name] for name in plan.arrays})
    absent = np.full(len(encoded.ids), -1, np.int64)
    columns = {
        **columns_of(encoded),
        "words": [list(example.words) for example in examples],
        "row_start": absent,
        "token_start": absent,
        **_first_rows(starts),
    }
    for name in ("text", "text_pair"):
        texts = [getattr(example, name) for example in examples]
        if any(text is not None for text in texts):
            columns[name] = texts
    return ExampleTable.from_columns(columns)


def _first_rows(starts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns of first rows; arrays that share a column have the same."""
    return {
        column: starts[name]
        for column, arrays in STARTS.items()
        for name in arrays
        if name in starts
    }


def _repeated(examples: Sequence[Example], count: int) -> list[Example]:
    """Return each example as often as it is read, its passes one after the other."""
    passes = count // max(len(examples), 1)
    return [example for example in examples for _ in range(passes)]
