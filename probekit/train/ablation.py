"""The loss when the rows of one layer are their mean: which layer a trained probe relies on."""

import math
from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.base.numbers.precision import full
from probekit.metrics import ROW_SCORES
from probekit.probe.normalization import Normalization
from probekit.train.member import Member
from probekit.train.probe import Probe
from probekit.train.row_probabilities import assess
from probekit.train.source import Inputs, Source

MeanRows = Mapping[Member, Float[Tensor, "layers dim"]]
"""Of each member the mean, layer by layer, of the rows that it was fitted on, as its head reads
them."""

_LOSS = (ROW_SCORES.names or ()).index("loss")


class Ablation:
    """Losses of a trained probe without each of its layers, over blocks of rows.

    The loss is that of a record's scores: nats of a row whose class train had (of a chain by its
    marginal, see ``metrics.log_loss``), or of a regression the squared error.

    Without layer i, every row of it is the mean of layer i over the rows that the probe was fitted
    on, as its head reads them: after the normalisation, so that after ``standardize`` it is 0.
    Nothing is fitted again. A head whose attention looks at layer i sees the mean there as well.
    """

    def __init__(self, probe: Probe, means: Float[Tensor, "layers dim"]) -> None:
        """Start without rows; the probe must be evaluating."""
        self._probe, self._means = probe, means
        # with all layers, then without each; the rows that count are the same
        self._losses = torch.zeros(1 + len(means), dtype=torch.float64, device=means.device)
        self._rows = 0

    def add(self, z: Float[Tensor, "rows layers dim"], inputs: Inputs) -> None:
        """Add a block of rows and their targets."""
        losses = [self._row_losses(z, inputs)]
        rows = full(z).transpose(0, 1)
        changed = rows.clone()
        for place, mean in enumerate(self._means):
            changed[place] = mean
            losses.append(self._row_losses(changed.transpose(0, 1), inputs))
            changed[place] = rows[place]
        counted = ~losses[0].isnan()
        self._losses += torch.stack(losses)[:, counted].double().sum(1)
        self._rows += int(counted.sum())

    def _row_losses(
        self, z: Float[Tensor, "rows layers dim"], inputs: Inputs
    ) -> Float[Tensor, " rows"]:
        """Return the loss of each row; NaN of one that does not count."""
        decoder, targets, offsets = self._probe.decoder, inputs.targets, inputs.offsets
        logits = self._probe.evaluated(z)
        said = assess(decoder, logits, targets, offsets, predicted=None, kept=False)
        if said is not None:
            return said.scores[:, _LOSS]
        losses = decoder.row_losses(logits, targets, offsets)
        return losses.where(decoder.counted(targets), torch.nan)

    def result(self) -> dict[int, float]:
        """Return the mean loss of a row without each layer less that with all, by layer number.

        Nothing where a loss is not finite.
        """
        with_all, *without = (self._losses / max(self._rows, 1)).tolist()
        found = [loss - with_all for loss in without]
        if not all(map(math.isfinite, found)):
            return {}
        return dict(zip(self._probe.head.layers, found, strict=True))


def mean_rows(source: Source, members: Iterable[Member]) -> MeanRows:
    """Return the mean of a source's rows for each member, in one pass."""
    readers: dict[tuple[Normalization, tuple[int, ...]], list[Member]] = {}
    for member in members:
        readers.setdefault((member.normalization, member.spec.layers), []).append(member)
    sums: dict[tuple[Normalization, tuple[int, ...]], Tensor] = {}
    rows = 0
    for inputs in source.blocks():
        rows += inputs.z.shape[1]
        for key in readers:
            z = inputs.of(*key)
            assert isinstance(z, Tensor), "a head of several layers reads rows"
            total = full(z).sum(0, dtype=torch.float64)
            sums[key] = sums[key] + total if key in sums else total
    return {one: (sums[key] / rows).float() for key, own in readers.items() for one in own}
