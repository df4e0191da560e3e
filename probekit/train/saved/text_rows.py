"""What a saved head reads of new text: the rows of one array, or whole windows of subwords."""

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
from probekit.store.codec import read_dtype
from probekit.train.saved.head import TrainedHead

BATCH_TOKENS = 4096


class HeadReader:
    """Runs the backbone over encoded texts and gives a head its input."""

    def __init__(self, head: TrainedHead, backbone: Backbone, encoded: EncodedSplit) -> None:
        """Keep what is needed; nothing is computed yet."""
        self._head = head
        self._backbone = backbone
        self._encoded = encoded
        self._features = head.saved.features
        self._bounds = bounds_of(encoded.rows[self._features.array])

    def read(self, start: int, stop: int) -> HeadInput:
        """Return the head's input for the examples ``start`` to ``stop`` (excluded).

        Raises:
            StateRangeError: a hidden state is not finite in the dtype of the head's cache.
        """
        if self._head.reads == "tokens":
            return self._tokens(start, stop, self._rows("tokens", start, stop)[:, 0])
        return self._rows(self._features.array, start, stop)

    def _rows(self, array: str, start: int, stop: int) -> Float[Tensor, "rows layers dim"]:
        rows = read_arrays(
            self._backbone,
            self._encoded,
            start,
            stop,
            layers={array: self._head.layers},
            pooling=self._features.pooling,
            batch_tokens=BATCH_TOKENS,
            dtype=read_dtype(self._features.dtype),
        )[array]
        if not rows.isfinite().all():
            self._refuse(array, start, stop, rows)
        return rows

    def _refuse(
        self, array: str, start: int, stop: int, rows: Float[Tensor, "rows layers dim"]
    ) -> NoReturn:
        """Name the first text whose states are not finite."""
        bounds = bounds_of(self._encoded.rows[array][start:stop])
        row = int((~rows.isfinite()).flatten(1).any(1).nonzero()[0])
        name = self._encoded.ids[start + int(np.searchsorted(bounds, row, side="right")) - 1]
        stored, computed = self._features.dtype, self._features.compute_dtype
        remedy = "--dtype bfloat16" if stored == "float16" else "--compute-dtype float32"
        raise StateRangeError(
            f"{name}: a hidden state is not finite, computed in {computed} and stored in {stored} "
            f"as in this head's cache. Extract again with {remedy}, and train the head on that."
        )

    def _tokens(self, start: int, stop: int, hidden: Float[Tensor, "tokens dim"]) -> TokenStates:
        encoded, bounds = self._encoded, self._bounds
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
        return row_sources(self._encoded, self._features.array, self._features.pooling)
