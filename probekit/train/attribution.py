"""What the layers of trained members count: all that one pass over dev says of it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from probekit.base.tensors import full
from probekit.metrics import ROW_SCORES
from probekit.probe.decoders.contract import LabelSetDecoder
from probekit.probe.heads.contract import FusionHead, HeadInput, LayerWeights
from probekit.probe.normalization import Normalization
from probekit.results.record import BY_MEAN
from probekit.train.member import Member, Probe
from probekit.train.scoring import ScoredSplit, assess, weights_by_class
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
        for index, mean in enumerate(self._means):
            changed[index] = mean
            losses.append(self._row_losses(changed.transpose(0, 1), inputs))
            changed[index] = rows[index]
        counted = ~losses[0].isnan()
        self._losses += torch.stack(losses)[:, counted].double().sum(1)
        self._rows += int(counted.sum())

    def _row_losses(
        self, z: Float[Tensor, "rows layers dim"], inputs: Inputs
    ) -> Float[Tensor, " rows"]:
        """Return the loss of each row; NaN of one that does not count."""
        decoder, targets, offsets = self._probe.decoder, inputs.targets, inputs.offsets
        logits = self._probe.evaluated(z)
        assessed = assess(decoder, logits, targets, offsets, predicted=None, kept=False)
        if assessed is not None:
            return assessed.scores[:, _LOSS]
        losses = decoder.row_losses(logits, targets, offsets)
        return losses.where(decoder.counted(targets), torch.nan)

    def result(self) -> dict[int, float]:
        """Return the mean loss of a row without each layer less that with all, by layer number.

        Nothing where a loss is not finite.
        """
        with_all, *without = (self._losses / max(self._rows, 1)).tolist()
        increases = [loss - with_all for loss in without]
        if not all(map(math.isfinite, increases)):
            return {}
        return dict(zip(self._probe.head.layers, increases, strict=True))


def mean_rows(source: Source, members: Iterable[Member]) -> MeanRows:
    """Return the mean of a source's rows for each member, in one pass."""
    read_by = {member: (member.normalization, member.spec.layers) for member in members}
    sums: dict[tuple[Normalization, tuple[int, ...]], Tensor] = {}
    rows = 0
    for inputs in source.blocks():
        rows += inputs.z.shape[1]
        for key in dict.fromkeys(read_by.values()):
            z = inputs.of(*key)
            assert isinstance(z, Tensor), "a head of several layers reads rows"
            sums[key] = sums.get(key, 0) + full(z).sum(0, dtype=torch.float64)
    return {member: (sums[key] / rows).float() for member, key in read_by.items()}


_AT_ONCE = 1 << 22  # values of contributions that are held at a time
_CLASSES = 4096  # classes whose products are summed at a time


class Contributions:
    """Shares of the logits' variance that the layers of a sum bring about.

    The logits of a row are sum_i c_i + constant, where c_i is what layer i adds to them: W w_i z_i
    of a mixture of layers and a linear decoder W, W a_i(z) z_i where the weights differ by row,
    W W_i z_i of ``concat``; of ``dwatt`` the last layer has its residual z_L besides what the
    attention picks of it. z is what the head reads, that is after the normalisation. The share of
    layer i is

        Cov(c_i, logits) / Var(logits),

    summed over the classes, with the mean over the classes taken out of every row (no prediction
    depends on it; a regression has but one output) and the mean over the rows out of every class:
    the slope of c_i over the logits, and the natural decomposition of a variance by the parts of a
    sum (Shorrocks 1982, "Inequality decomposition by factor components"). The shares sum to 1; one
    is negative where a layer speaks against the others. Of layers that are alike it does not say
    how much would be lost without one of them.

    Blocks are added one by one, in float64: each has its own means, and what the means of two
    differ by is added as Chan, Golub and LeVeque (1983) do.
    """

    def __init__(
        self,
        head: FusionHead,
        weight: Float[Tensor, "classes width"] | None = None,
        *,
        centred: bool = True,
    ) -> None:
        """Start without rows.

        Args:
            head: one that is ``additive``.
            weight: of the map from h to the logits. Without one, the shares are those in h itself,
                with its channels in the place of the classes (of a head with parameters).
            centred: take the mean over the classes out; not that over labels that a row may have
                together.
        """
        self._head = head
        self._weight = None if weight is None else full(reduced(weight, centred=centred).float())
        outputs = head.width if self._weight is None else len(self._weight)
        device = (next(head.parameters()) if weight is None else weight).device
        shape = (len(head.layers), outputs)
        self._means = torch.zeros(shape, dtype=torch.float64, device=device)
        self._covariance = torch.zeros(shape[0], dtype=torch.float64, device=device)
        self._rows = 0

    def add(self, z: Float[Tensor, "rows layers dim"]) -> None:
        """Add a block of rows."""
        at_once = max(1, _AT_ONCE // self._means.numel())
        for first in range(0, len(z), at_once):
            parts = self._head.layer_parts(z[first : first + at_once], self._weight).double()
            if self._weight is None:  # a weight has no mean over the classes
                parts = parts - parts.mean(2, keepdim=True)
            self._merge(parts)

    def _merge(self, parts: Float64[Tensor, "layers rows outputs"]) -> None:
        # To the only output two layers add 3 and 1 in both rows of a block, then 5 and 1 in both of
        # the next. Inside a block nothing varies; the means are 2 and 0 apart, 2 together, and two
        # rows beside two weigh 2 * 2 / 4: the first layer gets 2 * 2 * 1, the second 0. The outputs
        # 4 4 6 6 do have squares of 4 about their mean.
        rows = parts.shape[1]
        means = parts.mean(1)
        parts = parts - means[:, None]
        within = (parts * parts.sum(0)).sum((1, 2))
        total = self._rows + rows
        apart = means - self._means
        between = (apart * apart.sum(0)).sum(1) * (self._rows * rows / total)
        self._covariance += within + between
        self._means += apart * (rows / total)
        self._rows = total

    def shares(self) -> dict[int, float]:
        """Return the share of every layer, by number; none where the logits do not vary."""
        variance = self._covariance.sum()
        if not variance > 0:  # not a number either
            return {}
        shares = (self._covariance / variance).tolist()
        return dict(zip(self._head.layers, shares, strict=True))

    def weights(self) -> LayerWeights:
        """Return the shares as weights; even ones where the logits do not vary."""
        variance = self._covariance.sum()
        shares = self._covariance / variance
        if variance == 0:
            shares = torch.full_like(shares, 1 / len(self._head.layers))
        return LayerWeights(self._head.layers, shares)


def reduced(
    weight: Float[Tensor, "classes width"], *, centred: bool = True
) -> Float64[Tensor, "outputs width"]:
    """Return a map of at most ``width`` outputs whose products are those of the centred logits.

    Of the logits W h only products that are summed over the classes count, (W a) . (W b). With the
    mean over the classes taken out of W, which takes it out of every row, W^T W = R^T R for an R of
    as many rows as W has columns: of 50,000 classes and 576 channels, 576 outputs are left.
    """
    classes, width = weight.shape
    weight = weight.detach()
    centre = weight.double().mean(0) * (centred and classes > 1)
    if classes <= width:
        return weight.double() - centre
    gram = centre.new_zeros(width, width)
    for block in torch.split(weight, _CLASSES):
        part = block.double() - centre
        gram += part.t() @ part
    if not gram.isfinite().all():
        return gram
    values, vectors = torch.linalg.eigh(gram)
    return values.clamp(min=0).sqrt().unsqueeze(1) * vectors.t()


def attribute(
    dev: ScoredSplit, members: Sequence[Member], means: MeanRows | None = None
) -> list[dict[str, Any]]:
    """Return what the layers of members count on dev, by the names of `FitResult`.

    The weights of a sum of learned maps (``concat``) are the shares, or where the decoder is no
    affine map (an MLP, say) the shares in h itself. What is not finite is left out: huge values may
    be finite, and what is computed from them not; the member has diverged then.

    Args:
        dev: the rows.
        members: trained, and evaluating.
        means: what stands for the rows of a layer that is left out; members that are not among
            these leave out none.
    """
    means = means or {}
    measures = {member: _Measures(member, means.get(member)) for member in members}
    with torch.no_grad():
        readers = [member for member in members if measures[member].need_rows]
        for member, z, inputs in dev.visit(readers):
            measures[member].add(z, inputs)
        return [measures[member].result(dev) for member in members]


class _Measures:
    """What is measured of one member, as far as it has it."""

    def __init__(self, member: Member, means: Tensor | None) -> None:
        """Choose the measures."""
        self._diverged = member.diverged
        self._probe, self._head = member.probe, member.probe.head
        self._logits = self._probe.decoder.logit_weight
        self._fresh = None
        if self._head.per_row:
            self._fresh = member.fresh_head().to(member.dropout.device).eval()
        self._weights: list[LayerWeights] = []
        self._initial: list[LayerWeights] = []
        self._sum: Contributions | None = None
        in_sum = self._logits is not None or self._head.weighed_by_shares
        if self._head.additive and in_sum and len(self._head.layers) > 1:
            apart = isinstance(self._probe.decoder, LabelSetDecoder)
            self._sum = Contributions(self._head, self._logits, centred=not apart)
        self._ablation = None if means is None else Ablation(self._probe, means)

    @property
    def need_rows(self) -> bool:
        """Whether something is measured that is not known without rows."""
        return any(measure is not None for measure in (self._fresh, self._sum, self._ablation))

    def add(self, z: HeadInput, inputs: Inputs) -> None:
        """Add a block of rows."""
        if self._fresh is not None:
            self._weights.append(self._head.layer_weights(z))
            self._initial.append(self._fresh.layer_weights(z))
        if self._sum is not None and isinstance(z, Tensor):
            self._sum.add(z)
        if self._ablation is not None and isinstance(z, Tensor):
            self._ablation.add(z, inputs)

    def result(self, dev: ScoredSplit) -> dict[str, Any]:
        """Return what was measured on all rows of dev."""
        head, initial, shares = self._head, dict[int, float](), dict[int, float]()
        if self._fresh is not None:
            weights = LayerWeights.concatenate(self._weights)
            initial = LayerWeights.concatenate(self._initial).by_layer()
        elif self._sum is not None and head.weighed_by_shares:
            weights = self._sum.weights()
        else:
            weights = head.layer_weights(None)
        if head.additive and self._logits is not None:  # a single layer has all, whatever the rows
            shares = {head.layers[0]: 1.0} if self._sum is None else self._sum.shares()
        by_layer, raw = weights.by_layer(), weights.raw_by_layer()
        finite = all(map(math.isfinite, [*by_layer.values(), *(raw or {}).values()]))
        return {
            "weights": by_layer if finite else {},
            "raw_weights": raw if finite else None,
            "class_weights": weights_by_class(weights, dev.view) if finite else {},
            "initial_weights": initial if all(map(math.isfinite, initial.values())) else {},
            "shares": shares if all(map(math.isfinite, shares.values())) else {},
            "ablation": {} if self._ablation is None else self._ablation.result(),
            "ablated": None if self._ablation is None else BY_MEAN,
            "diverged": self._diverged or not finite,
        }
