"""What an extraction will write: the split as the model reads it, its arrays, and its units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from probekit.backbone import BackboneInfo
from probekit.base.kinds import ARRAYS
from probekit.base.layers import parse_layers
from probekit.base.registry import choose
from probekit.data.encoded import EncodedSplit
from probekit.data.pooling import Pooling
from probekit.errors import DataError
from probekit.extraction.request import Request
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.units import (
    Unit,
    grown_chunk_rows,
    max_chunks,
    plan_units,
    pooled_chunk_rows,
    stored_rows,
)
from probekit.store.arrays import ArraySpec, FeatureDtype, chunk_rows_for
from probekit.store.backends import BACKENDS
from probekit.store.codec import TORCH_DTYPES
from probekit.store.mapping import check_mappable
from probekit.tasks import Split


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The layout of one entry, a function of text, model and options alone.

    Attributes:
        encoded: the split as the model reads it.
        arrays: array descriptions by name, in the resolved dtype.
        units: units in data-set order.
        pooling: which subwords make a word's row.
        batch_tokens: padded tokens per batch.
    """

    encoded: EncodedSplit
    arrays: Mapping[str, ArraySpec]
    units: list[Unit]
    pooling: Pooling
    batch_tokens: int

    @property
    def nbytes(self) -> int:
        """Bytes on disk, the unused tails of units included."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def tokens(self) -> int:
        """Subwords that the model reads, special tokens and overlaps included."""
        return len(self.encoded.subwords)

    @property
    def dtype(self) -> FeatureDtype:
        """What all arrays are stored as."""
        return next(iter(self.arrays.values())).dtype

    @property
    def layers(self) -> list[int]:
        """The layers that any array stores, ascending."""
        return sorted({layer for array in self.arrays.values() for layer in array.layers})

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
        return replace(self, arrays=arrays)

    def unit_tokens(self, unit: Unit) -> int:
        """Return how many subwords the model reads for a unit."""
        bounds = self.encoded.example_tokens
        return int(bounds[unit.stop] - bounds[unit.start])

    def to_json(
        self, request: Mapping[str, Any], compute_dtype: str, limit: int | None
    ) -> dict[str, Any]:
        """Return what a resumed run must share with the run that it continues.

        Device and batch size move the last bits at most; units remember theirs.

        Args:
            request: of the entry.
            compute_dtype: what the model computes in.
            limit: N if the split is only its first N examples.
        """
        return {
            "request": dict(request),
            "backend": request["format"],
            "limit": limit,
            "compute_dtype": compute_dtype,
            "arrays": [array.to_json() for array in self.arrays.values()],
            "units": [[unit.start, unit.stop] for unit in self.units],
        }

    def describe_unit(self, unit: Unit) -> str:
        """Return the unit's examples, for messages."""
        ids = self.encoded.ids
        return f"examples {ids[unit.start]} to {ids[unit.stop - 1]}"


def read_split(request: Request, split: Split) -> EncodedSplit:
    """Tokenise a split and cut it into windows: its words, its texts, or blocks with predictions.

    Raises:
        BackboneError: the tokenizer does not fit the form of prediction.
        DataError: an example cannot be read, or no token is predicted.
        OptionError: the limit is not the model's, or leaves no room for text.
    """
    masking = request.masking
    encoded = request.inspection.encode(
        split.examples,
        max_length=request.max_length,
        overlong=request.options.overlong,
        masking=masking,
    )
    if masking is not None and not encoded.counts["predicted"]:
        every = f", every {masking['every']}th position (--every)" if "every" in masking else ""
        raise DataError(
            f"{split.origin}: no token is predicted{every}; the texts of {split.name} are too "
            "short or too few."
        )
    return encoded


def make_plan(
    encoded: EncodedSplit,
    info: BackboneInfo,
    options: ExtractOptions,
    keep: Sequence[str],
    pooling: Pooling,
) -> Plan:
    """Lay out the arrays and units of an entry.

    ``--dtype auto`` is planned as float16; see ``Plan.with_dtype``.

    Args:
        encoded: the split as the model reads it.
        info: the model.
        options: what is asked for.
        keep: the arrays to store, in their order.
        pooling: which subwords make a word's row.

    Raises:
        OptionError: a layer does not exist, or a process could not map so many files.
    """
    dtype = cast(FeatureDtype, "float16" if options.dtype == "auto" else options.dtype)
    chosen = parse_layers(options.layers, info.n_blocks)
    layers = {name: (info.n_blocks,) if ARRAYS[name].last_only else chosen for name in keep}
    rows = {name: encoded.rows[name] for name in keep}
    row_bytes = {name: len(layers[name]) * info.dim * 2.0 for name in keep}
    chunk_rows = {name: chunk_rows_for(info.dim, dtype, int(rows[name].sum())) for name in keep}
    chunk_rows |= pooled_chunk_rows(chunk_rows, rows, row_bytes, len(encoded.subwords))
    chunk_rows = grown_chunk_rows(chunk_rows, rows, row_bytes)
    units = plan_units(
        rows,
        chunk_rows=chunk_rows,
        max_chunks=max_chunks(chunk_rows, rows, row_bytes),
        weights=row_bytes,
    )
    slots = stored_rows(units, chunk_rows)
    arrays = {
        name: ArraySpec(
            name=name,
            rows=slots[name],
            layers=layers[name],
            dim=info.dim,
            dtype=dtype,
            chunk_rows=chunk_rows[name],
        )
        for name in keep
    }
    check_mappable(choose("backend", options.format, BACKENDS), arrays.values())
    return Plan(
        encoded=encoded,
        arrays=arrays,
        units=units,
        pooling=pooling,
        batch_tokens=options.batch_tokens,
    )


def buffer_dtype(array: ArraySpec, compute_dtype: torch.dtype, pooling: Pooling) -> torch.dtype:
    """Return the dtype in which rows are gathered: the stored one where that is narrower.

    int8 needs whole chunks, and a mean adds up over the windows of its text: both are gathered as
    the model has them.
    """
    exact = exact_dtype(array, compute_dtype, pooling)
    if array.dtype == "int8" or ARRAYS[array.name].averages:
        return exact
    return min(exact, TORCH_DTYPES[array.dtype], key=lambda dtype: dtype.itemsize)


def exact_dtype(array: ArraySpec, compute_dtype: torch.dtype, pooling: Pooling) -> torch.dtype:
    """Return the dtype that holds rows as the model has them, or their averages."""
    kind = ARRAYS[array.name]
    averages = kind.averages or (kind.per == "word" and pooling == "mean")
    return torch.float32 if averages else compute_dtype
