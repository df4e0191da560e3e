"""Rows of whole texts that are made of their tokens as they are read."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.kinds import TOKENS
from probekit.base.numbers import Ragged, bounds_of, ragged_arange
from probekit.data.encoded import encoded_of
from probekit.errors import DataError, OptionError
from probekit.probe.token_heads.contract import TokenHeadSpec, TokenPool
from probekit.store import Entry, StoredRows
from probekit.store.feature_array import FeatureArray, RowNumbers
from probekit.store.tables import ExampleTable

_BLOCK_VALUES = 2**24
"""Most values of tokens that are in memory at a time, unless one text has more."""


def token_rows(examples: ExampleTable) -> Ragged:
    """Return the rows in ``tokens`` of each text of an entry: each token once, in their order."""
    starts, counts = examples.token_start, examples.n_token_rows
    rows = ragged_arange(starts, counts)
    if examples.has("kept"):  # each once already
        return Ragged(rows, bounds_of(counts))
    encoded = encoded_of(examples)
    once = bounds_of(encoded.once.astype(np.int64))
    return Ragged(rows[encoded.once], once[encoded.example_tokens])


class PooledTokens(FeatureArray):
    """An array with a row for each text of an entry, which a token head makes of its tokens.

    It is read as any other, by the number of the text; nothing that is made is kept.

    Attributes:
        tokens: the array of the tokens.
        head: what makes a row of them; it is not trained.
    """

    def __init__(self, entry: Entry, head: TokenHeadSpec) -> None:
        """Look up the tokens of each text.

        Raises:
            DataError: the entry does not hold tokens.
        """
        if TOKENS not in entry.arrays:
            held = entry.manifest.lacking(TOKENS)
            raise DataError(f"--token-head {head.name} reads tokens: {entry.path} {held}")
        tokens = entry.arrays[TOKENS]
        super().__init__(replace(tokens.spec, dtype="float32"), ())
        self.rows = len(entry.examples)
        self.tokens, self.head, self._examples = tokens, head, entry.examples

    @cached_property
    def _pool(self) -> TokenPool:
        if not self.head.fixed:
            raise OptionError(
                f"token head {self.head.name} is trained with a head: its rows are there once a "
                "run has trained it."
            )
        return self.head.build(len(self.tokens.layers), self.tokens.dim, torch.Generator())

    @cached_property
    def _rows(self) -> Ragged:
        return token_rows(self._examples)

    def read(
        self, rows: RowNumbers, layers: Sequence[int] | None = None, out: Tensor | None = None
    ) -> Float[Tensor, "rows layers dim"]:
        """Return the rows of texts as `FeatureArray.read` does, in float32."""
        index = self._layer_indices(layers)
        wanted = self._wanted(rows)
        count = len(wanted)
        texts = np.arange(count) + wanted.start if isinstance(wanted, range) else wanted.numpy()
        result = self.empty(count, len(index)) if out is None else self._checked(out, count, index)
        chosen = [self.layers[at] for at in index]
        for start, stop in self._blocks(texts, len(index)):
            tokens = self._rows.take(texts[start:stop])
            z = self.tokens.read(tokens.values, chosen).permute(1, 0, 2)
            pooled = self._pool(z, torch.from_numpy(tokens.bounds))
            result[start:stop] = pooled.permute(1, 0, 2)
        return result

    def read_stored(self, rows: RowNumbers, layers: Sequence[int] | None = None) -> StoredRows:
        """Return the same; rows that are made are stored nowhere."""
        return StoredRows(self.read(rows, layers).permute(1, 0, 2))

    def prefetch(
        self, rows: Int64[np.ndarray, " rows"], layers: Sequence[int] | None = None
    ) -> None:
        """Ask the system for the tokens of texts, as `FeatureArray.prefetch` does."""
        self.tokens.prefetch(self._rows.take(rows).values, layers)

    def _blocks(
        self, texts: Int64[np.ndarray, " texts"], n_layers: int
    ) -> Iterator[tuple[int, int]]:
        """Yield runs of texts whose tokens fit into memory, at least one text each."""
        values = self._rows.lengths[texts] * n_layers * self.tokens.dim
        ends, start = np.cumsum(values), 0
        while start < len(texts):
            before = ends[start - 1] if start else 0
            fitting = int(np.searchsorted(ends, before + _BLOCK_VALUES, side="right"))
            stop = max(fitting, start + 1)
            yield start, stop
            start = stop
