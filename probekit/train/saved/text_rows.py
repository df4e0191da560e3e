"""What a saved head reads of new text: the rows of one array, or whole windows of subwords."""

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from probekit.backbone import Backbone, read_arrays
from probekit.base.numbers.ragged import Ragged, bounds_of
from probekit.data.encoded import EncodedSplit
from probekit.data.places import row_sources
from probekit.errors import StateRangeError
from probekit.probe.heads.contract import HeadInput
from probekit.probe.heads.tokens import TokenStates
from probekit.store.codec import READ_DTYPES
from probekit.train.saved.head import TrainedHead

BATCH_TOKENS = 4096


@dataclass
class HeadReader:
    """Runs the backbone over encoded texts and gives a head its input."""

    head: TrainedHead
    backbone: Backbone
    encoded: EncodedSplit

    def read(self, start: int, stop: int) -> HeadInput:
        """Return the head's input for the examples ``start`` to ``stop`` (excluded).

        Raises:
            StateRangeError: a hidden state is not finite in the dtype of the head's cache.
        """
        if self.head.reads == "tokens":
            return self._tokens(start, stop, self._rows("tokens", start, stop)[:, 0])
        return self._rows(self.head.array, start, stop)

    def _rows(self, array: str, start: int, stop: int) -> Float[Tensor, "rows layers dim"]:
        features = self.head.saved.features
        rows = read_arrays(
            self.backbone,
            self.encoded,
            start,
            stop,
            layers={array: self.head.layers},
            pooling=features.pooling,
            batch_tokens=BATCH_TOKENS,
            dtype=READ_DTYPES[features.dtype],
        )[array]
        if not rows.isfinite().all():
            self._refuse(array, start, stop, rows)
        return rows

    def _refuse(
        self, array: str, start: int, stop: int, rows: Float[Tensor, "rows layers dim"]
    ) -> NoReturn:
        """Name the first text whose states are not finite."""
        # Texts 4 and 5 of 3 and 2 rows have bounds 0 3 5; row 3 is the first of text 5.
        bounds = bounds_of(self.encoded.rows[array][start:stop])
        row = int((~rows.isfinite()).flatten(1).any(1).nonzero()[0])
        name = self.encoded.ids[start + int(np.searchsorted(bounds, row, side="right")) - 1]
        stored, computed = self.head.saved.features.dtype, self.head.saved.features.compute_dtype
        remedy = "--dtype bfloat16" if stored == "float16" else "--compute-dtype float32"
        raise StateRangeError(
            f"{name}: a hidden state is not finite, computed in {computed} and stored in {stored} "
            f"as in this head's cache. Extract again with {remedy}, and train the head on that."
        )

    def _tokens(self, start: int, stop: int, hidden: Float[Tensor, "tokens dim"]) -> TokenStates:
        encoded, bounds = self.encoded, bounds_of(self.encoded.rows[self.head.array])
        sources = self._sources.take(np.arange(bounds[start], bounds[stop]))
        first_tokens = encoded.example_tokens[start:stop] - encoded.example_tokens[start]
        shift = np.repeat(first_tokens, np.diff(bounds[start : stop + 1]))
        n_rows = int(bounds[stop] - bounds[start])
        windows = slice(int(encoded.example_windows[start]), int(encoded.example_windows[stop]))
        return TokenStates(
            hidden=hidden,
            lengths=torch.from_numpy(encoded.window_lengths[windows].astype(np.int64)),
            source=torch.from_numpy(sources.values + np.repeat(shift, sources.lengths)),
            row=torch.from_numpy(np.repeat(np.arange(n_rows), sources.lengths)),
            n_rows=n_rows,
        )

    @cached_property
    def _sources(self) -> Ragged:
        """The subwords that make up each row, by the rule that training used."""
        return row_sources(self.encoded, self.head.array, self.head.saved.features.pooling)
