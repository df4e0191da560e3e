"""Subwords for heads that read whole windows: which ones a batch needs, and what they make up."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.data.places import row_sources, window_lengths
from probekit.errors import DataError, OptionError
from probekit.features import FeatureView
from probekit.heads import TokenStates
from probekit.pooling import POOLED
from probekit.ragged import bounds_of, ragged_arange

ARRAY = "tokens"


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenPlan:
    """The windows of some examples' subwords, and the rows that they make up.

    Attributes:
        lengths: subwords of each window.
        source: positions among the subwords that rows are made of.
        row: the row that each source belongs to, ascending.
        n_rows: number of rows.
    """

    lengths: Int64[Tensor, " windows"]
    source: Int64[Tensor, " sources"]
    row: Int64[Tensor, " sources"]
    n_rows: int

    def states(self, hidden: Float[Tensor, "tokens dim"]) -> TokenStates:
        """Return the subwords with the plan."""
        return TokenStates(
            hidden=hidden,
            lengths=self.lengths,
            source=self.source,
            row=self.row,
            n_rows=self.n_rows,
        )


class TokenLayout:
    """The subwords of a view's examples: where they lie, and which of them make its rows.

    Attributes:
        view: the same examples, with subwords as their rows (and no targets).
    """

    def __init__(self, rows: FeatureView) -> None:
        """Look up the subwords of every example of ``rows``.

        Raises:
            DataError: the entry does not keep subwords.
            OptionError: rows at predicted positions, whose texts are cut into pieces.
        """
        entry, examples = rows.entry, rows.entry.examples
        if ARRAY not in entry.arrays:
            raise DataError(
                f"this head reads the subwords of whole texts, and {entry.path} holds only "
                f"{', '.join(entry.arrays)}. Extract again with "
                f"--keep {','.join([*entry.arrays, ARRAY])}."
            )
        if rows.kind == "language-modelling":
            raise OptionError("a head that reads whole texts cannot be used for language modelling")
        self._rows = rows
        self._windows = window_lengths(examples)
        sources = row_sources(examples, rows.array.spec.name, entry.manifest.pooling)
        self._sources = sources.take(_ordinals(rows))
        counts = examples.n_tokens[rows.positions].astype(np.int64)
        starts = examples.token_start[rows.positions]
        self.view = replace(
            rows,
            array=entry.arrays[ARRAY],
            rows=ragged_arange(starts, counts),
            offsets=bounds_of(counts),
            targets=np.zeros(int(counts.sum()), np.int64),
        )

    def plan(self, examples: Int64[np.ndarray, " some"], device: torch.device) -> TokenPlan:
        """Return the plan of some examples of the view, in the order given."""
        places = self._rows.places(examples)
        sources = self._sources.take(places)
        shift = bounds_of(self.view.lengths[examples])[:-1]
        shift = np.repeat(np.repeat(shift, self._rows.lengths[examples]), sources.lengths)
        row = np.repeat(np.arange(len(places)), sources.lengths)
        lengths = self._windows.take(self._rows.positions[examples]).values
        return TokenPlan(
            lengths=torch.from_numpy(lengths).to(device),
            source=torch.from_numpy(sources.values + shift).to(device),
            row=torch.from_numpy(row).to(device),
            n_rows=len(places),
        )


def _ordinals(view: FeatureView) -> Int64[np.ndarray, " rows"]:
    """Return the place of each row of a view among all rows of its entry."""
    examples = view.entry.examples
    if view.array.spec.name in POOLED:
        return view.positions
    owner = np.repeat(view.positions, view.lengths)
    return bounds_of(examples.n_rows)[owner] + view.rows - examples.row_start[owner]
