"""Score many members on one split in one pass, and what their probabilities say of rows."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Float32, Float64, Int8, Int32, Int64, Shaped
from torch import Tensor

from probekit.features import FeatureView
from probekit.metrics import (
    OF_PROBABILITIES,
    OF_SCORES,
    ROW_SCORES,
    AnyGold,
    Gold,
    LabelSets,
    LossGold,
    Metric,
    SquaredError,
    ValueGold,
    best_thresholds,
    confusion,
)
from probekit.probe.decoders.contract import (
    Classifier,
    Decoder,
    LabelSetDecoder,
    Logits,
    LogProbabilities,
    Targets,
)
from probekit.probe.heads.contract import HeadInput, LayerWeights, Reads
from probekit.train.member import Member
from probekit.train.sampling import type_names
from probekit.train.source import Inputs, Source

ALL_KEPT = 200
"""Classes up to which the probability of every one is kept, and its log odds."""

TOP_KEPT = 10
"""Of more classes, the most probable ones that are."""

_SLICE_VALUES = 2**22
"""Probabilities in float64 that exist at a time (32 MiB): of a vocabulary, some hundred rows."""


@dataclass(frozen=True, eq=False)
class KeptProbabilities:
    """Probabilities of rows, of all classes or of the most probable ones.

    Attributes:
        values: probabilities, in the order of the classes, or falling.
        classes: the class of each, where not all are kept.
        odds: log odds of all classes in float32, where all are kept.
    """

    values: Float[Tensor, "rows kept"]
    classes: Int64[Tensor, "rows kept"] | None = None
    odds: Float[Tensor, "rows kept"] | None = None

    def ordered(self) -> "KeptProbabilities":
        """Return the same with the most probable class first, and the class of each."""
        if self.classes is not None:
            return self
        return KeptProbabilities(*self.values.sort(dim=1, descending=True, stable=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class RowProbabilities:
    """What the probabilities of some rows say.

    Attributes:
        scores: of `ROW_SCORES`, one item per row.
        probabilities: of the classes that are kept, where they were asked for.
        kept: the class of each, the most probable first; None where all are kept, in their order.
        odds: log odds of all classes, likewise, where all are kept.
    """

    scores: Shaped[np.ndarray, " rows"]
    probabilities: Float16[np.ndarray, "rows kept"] | None = None
    kept: Int32[np.ndarray, "rows kept"] | None = None
    odds: Float32[np.ndarray, "rows classes"] | None = None

    @classmethod
    def joined(cls, blocks: Sequence["Block"]) -> "RowProbabilities":
        """Return blocks of rows as one, on the host."""
        columns, *kept = (None if part is None else part.cpu().numpy() for part in _join(blocks))
        assert columns is not None, "every block has scores"
        scores = np.empty(len(columns), ROW_SCORES)
        for column, name in enumerate(ROW_SCORES.names or ()):
            scores[name] = columns[:, column]
        probabilities, classes, odds = kept
        return cls(scores=scores, probabilities=probabilities, kept=classes, odds=odds)


class Block(NamedTuple):
    """Some rows on their device: the columns of `ROW_SCORES`, and what is kept, in half."""

    scores: Float[Tensor, "rows 4"]
    probabilities: Float16[Tensor, "rows kept"] | None = None
    classes: Int32[Tensor, "rows kept"] | None = None
    odds: Float32[Tensor, "rows classes"] | None = None


def _join(blocks: Iterable[Block]) -> Block:
    """Return blocks of rows as one."""
    scores, *kept = zip(*blocks, strict=True)
    return Block(
        torch.cat(scores), *(None if parts[0] is None else torch.cat(parts) for parts in kept)
    )


def keep_probabilities(log_p: LogProbabilities) -> KeptProbabilities:
    """Return the probabilities that are kept.

    Of equally probable classes the first comes first, as a decoder predicts it.
    """
    if log_p.shape[1] <= ALL_KEPT:
        return KeptProbabilities(log_p.exp(), odds=_log_odds(log_p))
    classes = log_p.topk(TOP_KEPT, dim=1).indices.sort(dim=1).values
    values, order = log_p.gather(1, classes).sort(dim=1, descending=True, stable=True)
    return KeptProbabilities(values.exp(), classes.gather(1, order))


def _log_odds(log_p: LogProbabilities) -> Float[Tensor, "rows classes"]:
    """Return log p - log (1 - p), in float32: they tell apart what is near 0 and what is near 1."""
    small = torch.log1p(-log_p.clamp(max=-1e-300).exp())
    near_one = (-torch.expm1(log_p.clamp(max=-1e-300))).log()
    return (log_p - torch.where(log_p < -math.log(2), small, near_one)).float()


def assess(
    decoder: Decoder,
    logits: Logits,
    targets: Targets,
    offsets: Int64[Tensor, " bounds"],
    *,
    predicted: Targets | None,
    kept: bool,
) -> Block | None:
    """Return what the probabilities of a block of rows say; None of a decoder of numbers.

    Args:
        decoder: in evaluation mode.
        logits: of the rows.
        targets: their gold classes; a number beyond the classes is one that train did not have.
        offsets: bounds of the sentences.
        predicted: what the decoder predicts, if it is known already.
        kept: keep probabilities, in float16, and log odds.
    """
    blocks = []
    # a decoder that looks at whole sentences sees all of them at once
    by_row = isinstance(decoder, Classifier | LabelSetDecoder)
    n_rows = max(len(logits), 1)
    size = max(_SLICE_VALUES // logits.shape[1], 1) if by_row else n_rows
    for start in range(0, n_rows, size):
        rows = slice(start, start + size)
        log_p = decoder.log_probabilities(logits[rows], offsets)
        if log_p is None:
            return None
        if isinstance(decoder, LabelSetDecoder):
            has = decoder.predict(logits[rows]) > 0
            log_q = decoder.log_probabilities(-logits[rows])
            scores = _score_sets(log_p, log_q, has, targets[rows])
        else:
            guessed = log_p.argmax(1) if predicted is None else predicted[rows]
            scores = _score(log_p, guessed, targets[rows])
        if kept:
            held = keep_probabilities(log_p)
            classes = None if held.classes is None else held.classes.int()
            blocks.append(Block(scores, held.values.half(), classes, held.odds))
        else:
            blocks.append(Block(scores))
    return _join(blocks)


def _score(
    log_p: LogProbabilities, guessed: Int64[Tensor, " rows"], targets: Int64[Tensor, " rows"]
) -> Float[Tensor, "rows 4"]:
    """Return the columns of `ROW_SCORES`: computed in float64, kept in float32."""
    seen: Bool[Tensor, " rows"] = targets < log_p.shape[1]
    gold = targets.where(seen, 0).unsqueeze(1)
    log_p_gold: Float64[Tensor, " rows"] = log_p.gather(1, gold).squeeze(1).where(seen, -torch.inf)
    p = log_p.exp()
    confidence = p.gather(1, guessed.unsqueeze(1)).squeeze(1)
    # (1 - p)^2 of the gold class by itself: of p near 1, sum p^2 - 2 p + 1 would be noise
    squares = p.square_()
    squares.scatter_(1, gold, squares.gather(1, gold).masked_fill(seen.unsqueeze(1), 0.0))
    brier = squares.sum(1) + log_p_gold.expm1().square()
    loss = (-log_p_gold).nan_to_num(nan=torch.inf, posinf=torch.inf).where(seen, torch.nan)
    right = guessed == targets
    return torch.stack([loss.float(), confidence.float(), brier.float(), right.float()], 1)


def _score_sets(
    log_p: LogProbabilities,
    log_q: LogProbabilities,
    has: Bool[Tensor, "rows labels"],
    targets: Int8[Tensor, "rows more"],
) -> Float[Tensor, "rows 4"]:
    """Return the columns of `ROW_SCORES` of sets of labels, whose probabilities are products.

    Args:
        log_p: of each label.
        log_q: of its absence.
        has: the labels that are predicted.
        targets: the gold labels; those beyond the known ones are labels that train did not have.
    """
    gold, unseen = (targets == 1).tensor_split([log_p.shape[1]], dim=1)
    n_unseen = unseen.sum(1)
    loss = -torch.where(gold, log_p, log_q).sum(1).where(n_unseen == 0, torch.nan)
    confidence = torch.where(has, log_p, log_q).sum(1).exp()
    brier = torch.where(gold, log_q, log_p).exp().square().sum(1) + n_unseen
    right = (has == gold).all(1) & (n_unseen == 0)
    return torch.stack([loss.float(), confidence.float(), brier.float(), right.float()], 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Assessed:
    """What a member says of the rows of a split.

    Attributes:
        predicted: what the metric consumes: a class, value or loss per row, or a score per label.
        probabilities: what its probabilities say; None of numbers.
    """

    predicted: np.ndarray
    probabilities: RowProbabilities | None


class ScoredSplit:
    """A split whose gold labels were prepared once.

    Attributes:
        view: its rows.
        sources: what the members read of them.
        metric: what scores it; its main score has its name.
        scorer: the metric, prepared with its gold labels.
    """

    def __init__(
        self, view: FeatureView, sources: Mapping[Reads, Source], metric: type[Metric]
    ) -> None:
        """Prepare the metric."""
        self.view = view
        self.sources = sources
        self.metric = metric
        self.scorer = metric(gold_of(view, metric))

    def decide(self, members: Sequence[Member]) -> list[np.ndarray]:
        """Return what `predict` does; sets of labels are decided at the best F1 of each label here.

        Their decoders keep these thresholds.
        """
        if not isinstance(gold := self.scorer.gold, LabelSets):
            return self.predict(members)
        decoders = [cast(LabelSetDecoder, member.probe.decoder) for member in members]
        for decoder in decoders:
            decoder.thresholds.zero_()
        predictions = self.predict(members)
        for decoder, logits in zip(decoders, predictions, strict=True):
            chosen = best_thresholds(gold, logits)
            decoder.thresholds.copy_(torch.from_numpy(chosen))
            logits[:] = (logits - chosen).astype(np.float32)  # as the decoder itself gives them
        return predictions

    @torch.no_grad()
    def predict(self, members: Sequence[Member]) -> list[np.ndarray]:
        """Return what the metric consumes of each member, as `Assessed` has it."""
        parts: dict[Member, list[Tensor]] = {member: [] for member in members}
        for member, z, inputs in self.visit(members):
            parts[member].append(self._outputs(member, z, inputs)[0])
        return [_joined(parts[member]) for member in members]

    def _outputs(self, member: Member, z: HeadInput, inputs: Inputs) -> tuple[Tensor, Logits]:
        """Return what the metric consumes of a block of rows, and the logits that it is made of."""
        probe, offsets = member.probe, inputs.offsets
        if self.metric.consumes == "losses":
            logits = probe.logits(z)
            return probe.decoder.row_losses(logits, inputs.targets, offsets), logits
        logits = probe.evaluated(z)
        return probe.decoder.predict(logits, offsets), logits

    @torch.no_grad()
    def assess(self, members: Sequence[Member], *, keep: bool) -> list[Assessed]:
        """Return what `predict` does of each member, and what its probabilities say.

        They say nothing of numbers, nor of classes that are scored by their losses alone.

        Args:
            members: in evaluation mode.
            keep: keep the probabilities of every row.
        """
        parts: dict[Member, list[Tensor]] = {member: [] for member in members}
        blocks: dict[Member, list[Block]] = {member: [] for member in members}
        of_losses = self.metric.consumes == "losses"
        unsaid = self.metric.consumes == "values" or (of_losses and len(self.view.labels))
        for member, z, inputs in self.visit(members):
            outputs, logits = self._outputs(member, z, inputs)
            parts[member].append(outputs)
            if unsaid:
                continue
            predicted = None if of_losses else outputs
            decoder, gold = member.probe.decoder, inputs.targets
            block = assess(decoder, logits, gold, inputs.offsets, predicted=predicted, kept=keep)
            blocks[member] += [] if block is None else [block]
        return [
            Assessed(
                predicted=_joined(parts[member]),
                probabilities=RowProbabilities.joined(blocks[member]) if blocks[member] else None,
            )
            for member in members
        ]

    def scores(self, assessed: Assessed) -> dict[str, float]:
        """Return loss, calibration error, Brier score and ranks, as far as they are defined."""
        if self.metric.consumes == "values":
            (error,) = SquaredError(self.scorer.gold).score(assessed.predicted).values()
            return {"loss": error}
        if assessed.probabilities is None:
            return {}
        rows, gold = assessed.probabilities.scores, LossGold(len(self.view))
        scores = {
            name: score
            for metric in OF_PROBABILITIES
            for name, score in metric(gold).score(rows).items()
        }
        ranked = assessed.predicted if self.view.of_sets else assessed.probabilities.odds
        if ranked is not None and self.metric.consumes != "losses":
            for ranking in OF_SCORES:
                scores |= ranking(self.scorer.gold).score(ranked)
        return scores

    def alarm_shares(self, assessed: Assessed, threshold: float) -> dict[str, float]:
        """Return the shares of rows of the second and of the first class above a threshold.

        Args:
            assessed: what a member says of the split.
            threshold: log odds of the second class, chosen on another split.

        Returns:
            ``alarm-recall`` and ``alarm-fpr``; nothing where a class has no row.
        """
        found = self.odds_of_second(assessed)
        if found is None or not 0 < found[0].sum() < len(found[0]):
            return {}
        has, above = found[0], found[1] > threshold
        return {"alarm-recall": float(above[has].mean()), "alarm-fpr": float(above[~has].mean())}

    def odds_of_second(
        self, assessed: Assessed
    ) -> tuple[Bool[np.ndarray, " rows"], Float64[np.ndarray, " rows"]] | None:
        """Return which rows are of the second of two classes, and their log odds of it.

        None of other classes than two.
        """
        rows, gold = assessed.probabilities, self.scorer.gold
        if rows is None or rows.odds is None or self.metric.consumes != "classes":
            return None
        # train may know one class alone, of two that a split has
        if not isinstance(gold, Gold) or not len(gold.names) == rows.odds.shape[1] == 2:
            return None
        return gold.ids == 1, rows.odds[:, 1].astype(np.float64)

    def visit(self, members: Sequence[Member]) -> Iterator[tuple[Member, HeadInput, Inputs]]:
        """Yield each block of rows for each member, as it reads them and as they came."""
        for reads, source in self.sources.items():
            chosen = [member for member in members if member.spec.head.reads == reads]
            for inputs in source.blocks() if chosen else ():
                for member in chosen:
                    yield member, inputs.of(member.normalization, member.spec.layers), inputs


def _joined(parts: Sequence[Tensor]) -> np.ndarray:
    """Return what was found of every block, numbers in float64."""
    values = torch.cat(list(parts)).cpu()
    return (values.double() if values.is_floating_point() else values).numpy()


def gold_of(view: FeatureView, metric: type[Metric]) -> AnyGold:
    """Return a view's targets as a metric wants them."""
    if metric.consumes == "losses":
        return LossGold(len(view))
    if view.of_sets:
        return LabelSets(view.targets == 1, view.offsets, view.all_names)
    if metric.consumes == "values":
        return ValueGold(view.targets, view.offsets)
    return Gold(ids=view.targets, offsets=view.offsets, names=view.all_names)


def weights_by_class(weights: LayerWeights, view: FeatureView) -> dict[str, dict[int, float]]:
    """Return the mean weight of each layer over the rows of each gold class.

    Classes of tags (``B-PER``, ``I-PER``) are their types; ``O`` is one as well.

    Args:
        weights: of every row of the view, in order.
        view: the scored rows.

    Returns:
        Nothing for weights that are the same in all rows, and where there are no classes.
    """
    if weights.weights.ndim == 1 or not len(view.labels):
        return {}
    rows = sorted(view.rows_of(type_names(view.all_names)).items())
    return {
        name: weights.select(torch.from_numpy(chosen)).by_layer()
        for name, chosen in rows
        if chosen.any()
    }


MOST_CLASSES = 200
"""Of more, no record should hold a confusion."""


def confusion_of(split: ScoredSplit, predicted: np.ndarray) -> dict[str, Any] | None:
    """Return how often each gold class was predicted as which.

    Returns:
        None without classes, and with more than ``MOST_CLASSES``.
    """
    types = type_names(split.view.all_names)
    gold = split.scorer.gold
    if not isinstance(gold, Gold) or not 0 < len(set(types)) <= MOST_CLASSES:
        return None
    rows, columns, counts = confusion(gold, predicted, types)
    return {"rows": list(rows), "columns": list(columns), "counts": counts.tolist()}
