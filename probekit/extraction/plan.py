"""What an extraction will write: the split as the model reads it, its arrays, and its units.

Shards are several processes that extract one entry together, each some of its units.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

import numpy as np
import torch
from jaxtyping import Int64

from probekit.backbone import BackboneInfo
from probekit.backbone.points import Place
from probekit.base.kinds import ARRAYS
from probekit.base.registry import choose
from probekit.data.encoded import EncodedSplit, Pooling
from probekit.errors import OptionError
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.units import (
    Unit,
    fit_chunk_rows,
    max_chunks,
    plan_units,
    stored_rows,
    unit_share,
)
from probekit.store.backends import BACKENDS
from probekit.store.codec import TORCH_DTYPES
from probekit.store.layout import ArraySpec, FeatureDtype, chunk_rows_for
from probekit.store.mapping import check_mappable

_SHARD = re.compile(r"(\d+)/(\d+)", re.ASCII)


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The layout of one entry, a function of text, model and options alone.

    Attributes:
        encoded: the split as the model reads it.
        arrays: array descriptions by name, in the resolved dtype.
        dtype: what all arrays are stored as.
        units: units in data-set order.
        pooling: which subwords make a word's row.
        batch_tokens: padded tokens per batch.
        attention_heads: how many lie side by side in ``z``; None without it, or if their widths
            differ.
    """

    encoded: EncodedSplit
    arrays: Mapping[str, ArraySpec]
    dtype: FeatureDtype
    units: list[Unit]
    pooling: Pooling
    batch_tokens: int
    attention_heads: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes on disk, the unused tails of units included."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def tokens(self) -> int:
        """Subwords that the model reads, special tokens and overlaps included."""
        return len(self.encoded.subwords)

    @property
    def layers(self) -> dict[str, tuple[int, ...]]:
        """The layers that each array stores, ascending."""
        return {name: array.layers for name, array in self.arrays.items()}

    @property
    def largest_first(self) -> list[Unit]:
        """The units in the order in which they are computed, those with most subwords first.

        Each is written while the model runs over the next; nothing hides the writing of the last.
        """
        return sorted(self.units, key=lambda unit: -self.unit_tokens(unit))

    def with_dtype(self, dtype: FeatureDtype) -> "Plan":
        """Return the same layout for another dtype of the same width."""
        arrays = {name: replace(array, dtype=dtype) for name, array in self.arrays.items()}
        assert sum(array.nbytes for array in arrays.values()) == self.nbytes
        return replace(self, arrays=arrays, dtype=dtype)

    def unit_tokens(self, unit: Unit) -> int:
        """Return how many subwords the model reads for a unit."""
        bounds = self.encoded.example_tokens
        return int(bounds[unit.stop] - bounds[unit.start])

    def describe_unit(self, unit: Unit) -> str:
        """Return the unit's examples, for messages."""
        ids = self.encoded.ids
        return f"examples {ids[unit.start]} to {ids[unit.stop - 1]}"


def make_plan(
    encoded: EncodedSplit,
    info: BackboneInfo,
    options: ExtractOptions,
    layers: Mapping[str, tuple[int, ...]],
    pooling: Pooling,
    places: Mapping[str, Place] = MappingProxyType({}),
) -> Plan:
    """Lay out the arrays and units of an entry.

    ``--dtype auto`` is planned as float16; see ``Plan.with_dtype``.

    Args:
        encoded: the split as the model reads it.
        info: the model.
        options: what is asked for.
        layers: of each array to store, in their order.
        pooling: which subwords make a word's row.
        places: of points besides the residual stream.

    Raises:
        OptionError: a process could not map so many files.
    """
    dtype = cast(FeatureDtype, "float16" if options.dtype == "auto" else options.dtype)
    rows = {name: encoded.rows[name] for name in layers}
    widths = {point: place.width or info.dim for point, place in places.items()}
    dims = {name: widths.get(ARRAYS[name].point, info.dim) for name in layers}
    share = unit_share(len(encoded.subwords), info.n_blocks, info.dim)
    arrays, units = lay_out(rows, layers, dims, dtype, share)
    check_mappable(choose("backend", options.format, BACKENDS), arrays.values())
    return Plan(
        encoded=encoded,
        arrays=arrays,
        dtype=dtype,
        units=units,
        pooling=pooling,
        batch_tokens=options.batch_tokens,
        attention_heads=places["z"].heads if "z" in places else None,
    )


def lay_out(
    rows: Mapping[str, Int64[np.ndarray, " examples"]],
    layers: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int],
    dtype: FeatureDtype,
    share: float,
) -> tuple[dict[str, ArraySpec], list[Unit]]:
    """Lay out the arrays and units of an entry.

    Args:
        rows: per array, the rows of each example.
        layers: per array, its layers.
        dims: per array, its width.
        dtype: how rows are stored.
        share: of all examples, what a unit computes at most.
    """
    row_bytes = {name: len(layers[name]) * dims[name] * 2.0 for name in rows}
    chunk_rows = {}
    for name in rows:  # alike where rows are, so that one column tells where these begin
        widest = max(dims[other] for other in rows if ARRAYS[other].per == ARRAYS[name].per)
        chunk_rows[name] = chunk_rows_for(widest, dtype, int(rows[name].sum()))
    chunk_rows = fit_chunk_rows(chunk_rows, rows, row_bytes, share)
    units = plan_units(
        rows,
        chunk_rows=chunk_rows,
        max_chunks=max_chunks(chunk_rows, rows, row_bytes, share),
        weights=row_bytes,
    )
    slots = stored_rows(units, chunk_rows)
    arrays = {
        name: ArraySpec(
            name=name,
            rows=slots[name],
            layers=layers[name],
            dim=dims[name],
            dtype=dtype,
            chunk_rows=chunk_rows[name],
        )
        for name in rows
    }
    return arrays, units


def row_dtypes(
    array: ArraySpec, compute_dtype: torch.dtype, pooling: Pooling
) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtype that holds rows as the model has them, and the one they are gathered in.

    The first holds their averages as well. The second is the stored one where that is narrower; but
    int8 needs whole chunks, and a mean adds up over the windows of its text: both are gathered as
    the model has them.
    """
    kind = ARRAYS[array.name]
    averages = kind.averages or (kind.per == "word" and pooling == "mean")
    exact = torch.float32 if averages else compute_dtype
    if array.dtype == "int8" or kind.averages:
        return exact, exact
    return exact, min(exact, TORCH_DTYPES[array.dtype], key=lambda dtype: dtype.itemsize)


@dataclass(frozen=True)
class Shard:
    """One of several processes that extract the same entries.

    Attributes:
        index: its number, 1 to ``count``.
        count: how many there are.
    """

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read ``2/4``: the second of four.

        Raises:
            OptionError: it has another form, or there is no such shard.
        """
        match = _SHARD.fullmatch(text.strip())
        if match is None:
            raise OptionError(
                f"--shard {text!r}: expected which of how many, such as 2/4 for the second of four."
            )
        index, count = map(int, match.groups())
        if not 1 <= index <= count:
            raise OptionError(
                f"--shard {text}: shards of {count} are 1/{count} to {count}/{count}"
                + (f", for which an array job is --array=1-{count}." if index == 0 < count else ".")
            )
        return cls(index, count)

    @classmethod
    def asked(cls, text: str | None, workers: int) -> "Shard | None":
        """Read the shard that a user asks for, if any.

        Raises:
            OptionError: as `parse`; or workers are asked for as well.
        """
        if text is not None and workers != 1:
            raise OptionError(
                f"--shard {text} with --workers {workers}: each worker is a shard already. Leave "
                "one of them out."
            )
        return None if text is None else cls.parse(text)

    def __str__(self) -> str:
        """Return the form that `parse` reads."""
        return f"{self.index}/{self.count}"

    @property
    def place(self) -> str:
        """Its place among the others as the name of a file has it."""
        return f"{self.index}-of-{self.count}"

    def has_part(self, number: int) -> bool:
        """Say whether a part of a split, 0, 1, ..., is this shard's."""
        return number % self.count == self.index - 1

    def units_of(self, plan: Plan, key: str) -> list[Unit]:
        """Return the units that are this shard's, a function of plan, key and number alone.

        The largest goes to the shard that has least to do (Graham 1969: no shard has more than 4/3
        of what the best division gives the fullest one). Entries begin with another shard each, as
        their keys say: the one unit of a small split is not always the first shard's.

        Args:
            plan: layout of the entry.
            key: of the entry, hex digits.
        """
        tokens, mine = [0] * min(self.count, len(plan.units)), []  # beyond, a shard has none
        first = int(key[:8], 16)
        for unit in plan.largest_first:
            least = tokens.index(min(tokens))
            tokens[least] += plan.unit_tokens(unit)
            if (least + first) % self.count == self.index - 1:
                mine.append(unit)
        return mine
