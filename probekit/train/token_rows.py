"""Subwords for heads that read whole windows: which ones a batch needs, and what they make up."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.kinds import ARRAYS
from probekit.base.numbers.ragged import Ragged, bounds_of, ragged_arange
from probekit.data.encoded import encoded_of, window_lengths
from probekit.data.pooling import row_sources
from probekit.errors import DataError
from probekit.features import FeatureView, missing_array
from probekit.probe.heads.tokens import TokenStates

ARRAY = "tokens"


class TokenLayout:
    """The subwords of a view's examples: where they lie, and which of them make its rows.

    Of an example that was read in several windows, those from the first to the last that its rows
    are made of: a passage of a long text for language modelling needs no others.

    Attributes:
        view: the same examples, with subwords as their rows (and no targets).
    """

    def __init__(self, rows: FeatureView, *, stored: bool = True) -> None:
        """Look up the subwords of every example of ``rows``.

        Args:
            rows: what is predicted.
            stored: whether they are read from the entry, and not computed anew.

        Raises:
            DataError: the entry does not keep subwords.
        """
        entry, examples = rows.entry, rows.entry.examples
        if stored and ARRAY not in entry.arrays:
            held = missing_array(entry, ARRAY)
            raise DataError(f"this head reads the subwords of whole texts: {held}")
        self._rows = rows
        sources = row_sources(encoded_of(examples), rows.array.spec.name, entry.manifest.pooling)
        sources = sources.take(_ordinals(rows))
        windows = window_lengths(examples)
        tokens = bounds_of(windows.values)
        text_start = tokens[windows.bounds[rows.positions]]
        owner = np.repeat(np.repeat(np.arange(rows.n_examples), rows.lengths), sources.lengths)
        token = sources.values + text_start[owner]
        # A text's two windows of 5 and 4 subwords lie at 10 and 15 of its entry (tokens 10 15 19):
        # its subword 6 is at place 16, in the second window. If no other makes a row, this window
        # alone is read, of which it is subword 1.
        window = np.searchsorted(tokens, token, side="right") - 1
        first, stop = _needed(windows, rows.positions, owner, window)
        self._windows = Ragged(
            windows.values[ragged_arange(first, stop - first)], bounds_of(stop - first)
        )
        self._sources = Ragged(token - tokens[first[owner]], sources.bounds)
        counts = tokens[stop] - tokens[first]
        starts = examples.token_start[rows.positions] + tokens[first] - text_start
        self.view = replace(
            rows,
            array=entry.arrays[ARRAY] if stored else rows.array,
            rows=ragged_arange(starts, counts),
            offsets=bounds_of(counts),
            targets=np.zeros(int(counts.sum()), np.int64),
        )

    def states(
        self, hidden: Float[Tensor, "tokens dim"], examples: Int64[np.ndarray, " some"]
    ) -> TokenStates:
        """Return the subwords of some examples of the view, in the order given.

        Args:
            hidden: their states.
            examples: as positions in the view.
        """
        # Of two sentences, the first one asked for has 3 subwords and one word, at place 1; the
        # other one has words at its places 1 and 2, which lie behind those 3: sources 1 4 5.
        places = self._rows.places(examples)
        sources = self._sources.take(places)
        return TokenStates.of(
            hidden,
            windows=self._windows.take(examples).values,
            sources=sources,
            starts=bounds_of(self.view.lengths[examples])[:-1],
            rows=self._rows.lengths[examples],
        )


def _needed(
    windows: Ragged,
    positions: Int64[np.ndarray, " examples"],
    owner: Int64[np.ndarray, " sources"],
    window: Int64[np.ndarray, " sources"],
) -> tuple[Int64[np.ndarray, " examples"], Int64[np.ndarray, " examples"]]:
    """Return the first window of each example that a row is made of, and one past the last.

    An example of which no subword makes a row keeps its first window.
    """
    start, end = windows.bounds[positions], windows.bounds[positions + 1]
    first, stop = start.copy(), np.minimum(start + 1, end)
    first[owner] = end[owner]
    np.minimum.at(first, owner, window)
    np.maximum.at(stop, owner, window + 1)
    return first, stop


def _ordinals(view: FeatureView) -> Int64[np.ndarray, " rows"]:
    """Return the place of each row of a view among all rows of its entry."""
    of_texts = ARRAYS[view.array.spec.name].per == "text"
    return view.positions if of_texts else view.word_numbers
