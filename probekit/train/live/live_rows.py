"""Rows that a model makes anew for every step, in place of those that a cache holds."""

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int64

from probekit.base.kinds import ARRAYS, TOKENS
from probekit.base.numbers import bounds_of
from probekit.data.encoded import EncodedSplit, encoded_of
from probekit.features import FeatureView
from probekit.probe.heads.contract import Reads
from probekit.store import StoredRows
from probekit.train.source import Inputs, Source, Step, TokenLayout
from probekit.train.stream import Residency

if TYPE_CHECKING:
    from probekit.train.live.live_model import LiveModel


class LiveSource(Source):
    """Some layers of a view's rows, or the subwords of its examples, computed when they are read.

    Where rows are read for a step, gradients go through them into the model; scored are rows of
    the model in evaluation mode.
    """

    def __init__(
        self,
        view: FeatureView,
        layers: Sequence[int],
        live: "LiveModel",
        encoded: EncodedSplit,
        layout: TokenLayout | None,
    ) -> None:
        """Look up where each row lies in its text.

        Args:
            view: the rows that are predicted.
            layers: which layers, ascending.
            live: the model.
            encoded: the texts of the view's entry.
            layout: how subwords make rows; None where rows are read.

        """
        device = live.backbone.device
        super().__init__(view, layers, device=device, resident=False, layout=layout)
        self._live, self.tuned, self._encoded = live, live.tuned, encoded
        self._array = view.array.spec.name if layout is None else TOKENS
        # two texts of three words and one: row 3 of the entry is place 0 of the text 1
        read, per = self.read_view, ARRAYS[self._array].per
        self._owners = read.owners
        if per == "text":
            self._within = np.zeros_like(self._owners)
        elif per == "subword":
            self._within = read.rows - read.entry.examples.token_start[self._owners]
        else:
            self._within = read.word_places

    @torch.no_grad()
    def read(self, places: Int64[np.ndarray, " rows"]) -> StoredRows:
        """Compute rows without gradients."""
        return StoredRows(self.compute(places))

    def _prefetch(self, places: Int64[np.ndarray, " rows"]) -> None:
        """Do nothing: there is nothing to be asked for."""

    def batches(self, steps: Iterator[Step], *, memory: int) -> Generator[Inputs, None, None]:
        """Yield what each step reads, computed when its turn has come."""
        for step in steps:
            with torch.set_grad_enabled(self._live.method.trains):
                z = self.compute(self.read_view.places(step))
            yield self._inputs(z, step)

    def compute(self, places: Int64[np.ndarray, " rows"]) -> torch.Tensor:
        """Return rows of ``read_view``, layers first."""
        texts, which = np.unique(self._owners[places], return_inverse=True)
        encoded = self._encoded.take(texts)
        wanted = bounds_of(encoded.rows[self._array])[which] + self._within[places]
        rows = self._live.rows(encoded, self._array, self.layers, wanted)
        return rows.index_select(1, torch.from_numpy(wanted).to(self.device))


class LiveRows(Residency):
    """Hands out rows of views that a model computes."""

    def __init__(self, live: "LiveModel") -> None:
        """Keep the model; its rows take no memory between steps."""
        super().__init__(0, live.backbone.device)
        self._live = live
        self._encoded: dict[str, EncodedSplit] = {}  # the texts of each entry, by its key

    def source(
        self, view: FeatureView, reads: Reads, layers: tuple[int, ...], *, once: bool = False
    ) -> Source:
        """Return what heads read of a view."""
        key = (id(view), reads, layers)
        if key not in self._known:
            entry = view.entry
            if entry.manifest.key not in self._encoded:
                self._encoded[entry.manifest.key] = encoded_of(entry.examples)
            encoded = self._encoded[entry.manifest.key]
            layout = TokenLayout(view, stored=False) if reads == "tokens" else None
            self._known[key] = LiveSource(view, layers, self._live, encoded, layout)
        return self._known[key]
