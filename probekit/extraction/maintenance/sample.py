"""A sample of an entry's rows, over all arrays that hold every chosen layer."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.kinds import LAST_ONLY, POOLED
from probekit.base.numbers.ragged import ragged_arange
from probekit.base.numbers.seeding import numpy_generator
from probekit.data.batching import Batching, batches_by_length
from probekit.data.stored import window_lengths
from probekit.errors import EXTRACT_AGAIN, EntryError
from probekit.store.entry import Entry
from probekit.store.tables import ExampleTable


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSample:
    """Rows of several arrays of an entry, or of any entry of the same text.

    Attributes:
        arrays: names of the arrays.
        array: for each row, which of them.
        example: for each row, its example.
        within: for each row, its place among the rows that its example has in the array.
    """

    arrays: tuple[str, ...]
    array: Int64[np.ndarray, " rows"]
    example: Int64[np.ndarray, " rows"]
    within: Int64[np.ndarray, " rows"]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.array)

    def array_of(self, place: int) -> str:
        """Return the name of a row's array."""
        return self.arrays[int(self.array[place])]

    def by_example(self) -> dict[int, list[int]]:
        """Return the places of the sample's rows, example by example."""
        return {
            int(example): np.flatnonzero(self.example == example).tolist()
            for example in np.unique(self.example)
        }


def sample_rows(entry: Entry, count: int, seed: int) -> RowSample:
    """Draw rows from all that mean something, each at most once.

    Besides random ones these are all rows of the texts with the most and the least padding beside
    them, two of every unit: if padding changed any, then those.

    Args:
        entry: the entry.
        count: how many random rows; fewer if there are fewer.
        seed: of the draw.

    Raises:
        EntryError: the entry keeps nothing but subwords, there is no valid row, or the manifest
            does not say how rows were computed.
    """
    arrays = tuple(name for name in entry.arrays if name not in LAST_ONLY)
    found = [_valid_places(entry.examples, name) for name in arrays]
    total = sum(len(example) for example, _ in found)
    if not total:
        raise EntryError(f"{entry.path} holds no valid row to compare.")
    number = np.repeat(np.arange(len(found)), [len(example) for example, _ in found])
    examples, within = (np.concatenate(parts) for parts in zip(*found, strict=True))
    generator = numpy_generator(seed, "verify")
    random = generator.choice(total, size=min(count, total), replace=False)
    drawn = np.union1d(random, np.flatnonzero(np.isin(examples, _most_and_least_padded(entry))))
    return RowSample(
        arrays=arrays, array=number[drawn], example=examples[drawn], within=within[drawn]
    )


def read_sample(entry: Entry, sample: RowSample) -> Float[Tensor, "rows layers dim"]:
    """Return the rows of a sample, in its order, in float32.

    Raises:
        EntryError: the entry does not hold an array of the sample.
    """
    parts = []
    for number, name in enumerate(sample.arrays):  # the sample is sorted by array
        mine = sample.array == number
        starts = entry.examples.starts(name)[sample.example[mine]]
        rows = torch.from_numpy(starts + sample.within[mine])
        parts.append(entry.arrays[name].read(rows).float())
    return torch.cat(parts)


def _most_and_least_padded(entry: Entry) -> Int64[np.ndarray, " examples"]:
    """Return two examples of every unit, by the padding of their windows in its batches."""
    units, windows = _units(entry), window_lengths(entry.examples)
    said = entry.manifest.extra["batching"]
    batching = Batching(padded_to=said["padded_to"], alone=said["alone"])
    found = []
    for start, stop, batch_tokens in units:
        lengths = windows.values[windows.bounds[start] : windows.bounds[stop]]
        padding = np.zeros_like(lengths)
        for batch in batches_by_length(lengths, batch_tokens, batching):
            padding[batch] = lengths[batch].max() - lengths[batch]
        owner = np.repeat(np.arange(start, stop), windows.lengths[start:stop])
        found += [owner[padding.argmax()], owner[padding.argmin()]] if len(owner) else []
    return np.unique(np.array(found, np.int64))


def _units(entry: Entry) -> list[tuple[int, int, int]]:
    """Return of every unit its first example, one past its last, and the tokens of a batch.

    Raises:
        EntryError: the manifest does not say it of every example.
    """
    entry.manifest.check_says("extra", ("batching", "computed", "units"))
    extra = entry.manifest.extra
    bounds = [*extra["units"], len(entry.examples)]
    tokens = {unit: way["batch_tokens"] for way in extra["computed"] for unit in way["units"]}
    if (
        bounds[0] != 0
        or bounds != sorted(bounds)
        or not tokens.keys() >= set(range(len(bounds) - 1))
    ):
        raise EntryError(
            f"{entry.path}: its extra does not say of every example in which unit, and of every "
            f"unit how, it was computed. {EXTRACT_AGAIN}"
        )
    return [(start, stop, tokens[unit]) for unit, (start, stop) in enumerate(pairwise(bounds))]


def _valid_places(
    examples: ExampleTable, array: str
) -> tuple[Int64[np.ndarray, " rows"], Int64[np.ndarray, " rows"]]:
    """Return example and place within the example of every row that means something."""
    if array in POOLED:
        read = np.flatnonzero(examples.n_tokens)
        return read, np.zeros_like(read)
    counts = examples.n_rows.astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    within = ragged_arange(np.zeros_like(counts), counts)
    return owner[examples.valid], within[examples.valid]
