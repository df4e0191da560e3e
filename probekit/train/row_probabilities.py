"""What a probe's probabilities say of rows: which are kept, and what they score."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Float64, Int32, Int64, Shaped
from torch import Tensor

from probekit.metrics import ROW_SCORES
from probekit.probe.decoders.contract import Classifier, Decoder, Logits, LogProbabilities, Targets

ALL_KEPT = 200
"""Classes up to which the probability of every one is kept."""

TOP_KEPT = 10
"""Of more classes, the most probable ones that are."""

_SLICE_VALUES = 2**22
"""Probabilities in float64 that exist at a time (32 MiB): of a vocabulary, some hundred rows."""


@dataclass(frozen=True, eq=False)
class Kept:
    """Probabilities of rows, of all classes or of the most probable ones.

    Attributes:
        values: probabilities, in the order of the classes, or falling.
        classes: the class of each, where not all are kept.
    """

    values: Float[Tensor, "rows kept"]
    classes: Int64[Tensor, "rows kept"] | None = None

    def ordered(self) -> "Kept":
        """Return the same with the most probable class first, and the class of each."""
        if self.classes is not None:
            return self
        return Kept(*self.values.sort(dim=1, descending=True, stable=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class RowProbabilities:
    """What the probabilities of some rows say.

    Attributes:
        scores: of `ROW_SCORES`, one item per row.
        probabilities: of the classes that are kept, where they were asked for.
        kept: the class of each, the most probable first; None where all are kept, in their order.
    """

    scores: Shaped[np.ndarray, " rows"]
    probabilities: Float16[np.ndarray, "rows kept"] | None = None
    kept: Int32[np.ndarray, "rows kept"] | None = None

    def overwrite(self, rows: Bool[np.ndarray, " rows"], other: "RowProbabilities") -> None:
        """Take what another one says of some rows."""
        for mine, its in (
            (self.scores, other.scores),
            (self.probabilities, other.probabilities),
            (self.kept, other.kept),
        ):
            if mine is not None and its is not None:
                mine[rows] = its[rows]

    @classmethod
    def joined(cls, blocks: Sequence["Block"]) -> "RowProbabilities":
        """Return blocks of rows as one, on the host."""
        columns = torch.cat([block.scores for block in blocks]).cpu().numpy()
        scores = np.empty(len(columns), ROW_SCORES)
        for column, name in enumerate(ROW_SCORES.names or ()):
            scores[name] = columns[:, column]
        held = [block.kept for block in blocks if block.kept is not None]
        classes = [block.classes for block in held if block.classes is not None]
        return cls(
            scores=scores,
            probabilities=torch.cat([k.values for k in held]).cpu().numpy() if held else None,
            kept=torch.cat(classes).int().cpu().numpy() if classes else None,
        )


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows on their device: the columns of `ROW_SCORES`, and what is kept."""

    scores: Float[Tensor, "rows 4"]
    kept: Kept | None


def keep(log_p: LogProbabilities) -> Kept:
    """Return the probabilities that are kept.

    Of equally probable classes the first comes first, as a decoder predicts it.
    """
    if log_p.shape[1] <= ALL_KEPT:
        return Kept(log_p.exp())
    classes = log_p.topk(TOP_KEPT, dim=1).indices.sort(dim=1).values
    values, order = log_p.gather(1, classes).sort(dim=1, descending=True, stable=True)
    return Kept(values.exp(), classes.gather(1, order))


def assess(
    decoder: Decoder,
    logits: Logits,
    targets: Targets,
    offsets: Int64[Tensor, " bounds"],
    *,
    predicted: Int64[Tensor, " rows"] | None,
    kept: bool,
) -> Block | None:
    """Return what the probabilities of a block of rows say; None of a decoder of numbers.

    Args:
        decoder: in evaluation mode.
        logits: of the rows.
        targets: their gold classes; a number beyond the classes is one that train did not have.
        offsets: bounds of the sentences.
        predicted: their predicted classes; None is the most probable one.
        kept: keep probabilities, in float16.
    """
    scores: list[Tensor] = []
    held: list[Kept] = []
    for rows in _slices(decoder, logits):
        log_p = decoder.log_probabilities(logits[rows], offsets)
        if log_p is None:
            return None
        guessed = log_p.argmax(1) if predicted is None else predicted[rows]
        scores.append(_score(log_p, guessed, targets[rows]))
        if kept:
            held.append(keep(log_p))
    return Block(torch.cat(scores), _in_half(held) if kept else None)


def _slices(decoder: Decoder, logits: Logits) -> Iterator[slice]:
    """Yield the rows in slices; those of a decoder that looks at whole sentences as one."""
    size = max(_SLICE_VALUES // logits.shape[1], 1) if isinstance(decoder, Classifier) else None
    for start in range(0, max(len(logits), 1), size or max(len(logits), 1)):
        yield slice(start, None if size is None else start + size)


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


def _in_half(held: Sequence[Kept]) -> Kept:
    classes = [block.classes for block in held if block.classes is not None]
    values = torch.cat([block.values.half() for block in held])
    return Kept(values, torch.cat(classes) if classes else None)
