"""What members read of a view: its rows, or the subwords that its rows are made of."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64

from probekit.base.registry import choose
from probekit.features import FeatureView
from probekit.probe.normalization import NORMALIZATIONS, Normalization
from probekit.train.cached_rows import Rows
from probekit.train.feed import Batch
from probekit.train.inputs import Inputs
from probekit.train.token_rows import TokenLayout


@dataclass(frozen=True, eq=False)
class Source:
    """Some layers of a view's rows, or the subwords of its examples.

    Attributes:
        view: the rows that are predicted.
        rows: what is read: those rows, or the subwords.
        layout: how subwords make rows; ``None`` where rows are read.
    """

    view: FeatureView
    rows: Rows
    layout: TokenLayout | None = None

    def fitted(self, normalization: str) -> Normalization:
        """Return a normalisation fitted on what is read, for all of its layers.

        Raises:
            UnknownNameError: no normalisation has this name.
            OptionError: it cannot be had of these rows, or of the model that made them.
        """
        kind = choose("normalization", normalization, NORMALIZATIONS)
        blocks = (z.transpose(0, 1) for _, z in self.rows.blocks())
        return kind.fit(blocks, self.rows.layers, self.rows.view.facts).to(self.rows.device)

    def inputs(self, batch: Batch) -> Inputs:
        """Return what a training step gives to heads."""
        plan = None if self.layout is None else self.layout.plan(batch.step, self.rows.device)
        return Inputs(batch.z, self.rows.layers, plan)

    def blocks(self) -> Iterator[tuple[Inputs, Int64[np.ndarray, " examples"]]]:
        """Yield all of the view in order, in blocks of whole examples, with those examples."""
        bounds = self.rows.view.offsets
        for block, z in self.rows.blocks():
            # Examples without rows go with the block after them, and at the end with the last.
            first = int(np.searchsorted(bounds, block.start, "left")) if block.start else 0
            last = int(np.searchsorted(bounds, block.stop, "left"))
            if block.stop == bounds[-1]:
                last = len(bounds) - 1
            examples = np.arange(first, last)
            plan = None if self.layout is None else self.layout.plan(examples, self.rows.device)
            yield Inputs(z, self.rows.layers, plan), examples


def targets_of(view: FeatureView, device: torch.device) -> torch.Tensor:
    """Return a view's targets on a device; numbers in float32."""
    targets = torch.from_numpy(view.targets)
    return (targets.float() if targets.is_floating_point() else targets).to(device)
