"""What records say of single layers: weights, shares of the logits, losses without a layer.

A weight or a share says how a head divides one whole among the layers that it reads, so that heads
on models of different depth can only be compared by its lift over an equal part: the number times
the number of layers read, which is 1 where all count the same.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

from probekit.errors import OptionError
from probekit.metrics import METRICS
from probekit.results.record import BY_MEAN, BY_REFIT, Record
from probekit.results.summaries.diagnosis import SOLVERS
from probekit.results.summaries.grouping import holding, series
from probekit.results.summaries.interval import Interval, interval
from probekit.results.summaries.scored import mean_values

_MIXTURES = ("p32", "scalar-mix")


def caution_text(records: Sequence[Record]) -> str:
    """Return why some weights say less than they seem to; or nothing.

    A penalty on the norm of a map is a penalty on the scale of what it reads: of layers that are
    not standardised, a solver's L2 prefers the large ones, whatever they know.
    """
    favoured = any(
        record.head in _MIXTURES and record.fitter in SOLVERS and record.normalize == "none"
        for record in records
    )
    return "layers not normalised: L2 favours those with large values" if favoured else ""


def distance(weights: Mapping[int, float], others: Mapping[int, float]) -> float:
    """Return how far apart two sets of weights are: half the sum of absolute differences.

    That is their total variation distance: 0 of the same weights, 1 of two layers' vertices.
    """
    return math.fsum(abs(weights[layer] - others[layer]) for layer in weights) / 2


def distances_text(columns: Mapping[str, Sequence[Record]]) -> list[str]:
    """Return a line on each column of weights: how far they moved, and how far seeds lie apart.

    Of heads that weigh each row by itself, and start from weights that the data and the first
    values of their parameters give, the weights that were there before training are told from what
    training made of them.

    Args:
        columns: records that differ in their seed alone, by name.
    """
    lines = []
    for name, members in columns.items():
        started = [record for record in members if record.initial_weights]
        moved = [distance(record.weights, record.initial_weights) for record in started]
        apart = _apart([record.weights for record in members])
        before = _apart([record.initial_weights for record in started])
        parts = []
        if moved:
            mean = interval(moved)
            half = "" if mean.half is None else f" ± {mean.half:.3f}"
            parts.append(f"training moved weights by {mean.mean:.3f}{half}")
        if apart:  # neither a single seed, nor seeds that decide nothing
            earlier = "" if before is None else f" (before training {before:.3f})"
            parts.append(f"seeds are {apart:.3f} apart{earlier}")
        lines += [f"{name}: {', '.join(parts)}"] if parts else []
    meaning = "(distances are half the sum of absolute differences: 0 the same, 1 disjoint)"
    return [*lines, meaning] if lines else []


def _apart(weights: Sequence[Mapping[int, float]]) -> float | None:
    """Return the mean distance of all pairs; None where there is no pair."""
    pairs = [distance(*pair) for pair in combinations(weights, 2)]
    return math.fsum(pairs) / len(pairs) if pairs else None


@dataclass(frozen=True)
class LayerMeasure:
    """A number of each layer that the records of some heads hold.

    Attributes:
        values: a record to its numbers by layer number; none where it holds none.
        absent: what is said where no record holds any, after how many there are.
        text: what the numbers of some records are, in a line.
        distances: lines on how far the numbers of some columns lie apart.
        before: a record to the same numbers before anything was trained, where that is known.
        way: how the numbers of a record came about, where there are several ways.
        decimals: digits behind the point.
        lifted: whether the numbers are parts of one whole, so that figures show their lift.
        signed: whether a number below zero is as telling as one above it.
    """

    values: Callable[[Record], Mapping[int, float]]
    absent: str
    text: Callable[[Sequence[Record]], str]
    distances: Callable[[Mapping[str, Sequence[Record]]], list[str]] = lambda columns: []
    before: Callable[[Record], Mapping[int, float]] = lambda record: {}
    way: Callable[[Record], str | None] = lambda record: None
    decimals: int = 3
    lifted: bool = True
    signed: bool = False

    def shown(self, record: Record) -> dict[int, float]:
        """Return a record's numbers by layer as figures show them: lifted, or as they are."""
        factor = len(record.layers) if self.lifted else 1
        return {layer: value * factor for layer, value in self.values(record).items()}

    def held(self, records: Sequence[Record]) -> list[Record]:
        """Return the records that hold numbers; of full and truncated depths, the full ones.

        Raises:
            RecordError: no record holds any.
        """
        return holding(records, self.values, self.absent)

    def lost(self, records: Sequence[Record], held: Sequence[Record]) -> list[Record]:
        """Return the records that hold none because they diverged, of the heads of ``held``."""
        heads = {record.head for record in held}
        return [r for r in records if r.diverged and not self.values(r) and r.head in heads]

    def columns(self, held: Sequence[Record]) -> dict[str, list[Record]]:
        """Return the records by column, each under its name; numbers of two ways never meet."""
        ways = sorted({self.way(record) or "" for record in held})
        if len(ways) == 1:
            return series(held)
        return {
            f"{name}, {way}": members
            for way in ways
            for name, members in series([r for r in held if self.way(r) == way]).items()
        }

    def means(self, members: Sequence[Record], what: str) -> dict[int, Interval]:
        """Return every layer's mean over the seeds of one setting, by layer number.

        Args:
            members: records that differ in their seed alone.
            what: the setting in words, for the message.

        Raises:
            RecordError: a seed occurs twice.
        """
        return dict(sorted(mean_values(members, self.values, what).items()))

    def means_before(self, members: Sequence[Record], what: str) -> dict[int, Interval]:
        """Return the same of what there was before training; nothing where that is not known."""
        return mean_values(members, self.before, what)


_WEIGHING = (
    "; run `probekit train` with a head that weighs layers, such as --head p32 or --head "
    "attention-fusion."
)


def _weights_line(when: str, held: Sequence[Record]) -> str:
    concat = when == "after" and any(record.head == "concat" for record in held)
    shares = "concat: share of the logits" * concat
    parts = [f"weight of each layer {when} the softmax", shares, caution_text(held)]
    return "; ".join(filter(None, parts))


def _ablation_line(held: Sequence[Record]) -> str:
    numbers = {
        METRICS[record.metric].consumes == "values" for record in held if record.metric in METRICS
    }
    unit = "squared error" if numbers == {True} else "nats per row"
    how = {
        BY_MEAN: "its rows replaced by their train mean (mean, nothing refitted)",
        BY_REFIT: "the head refitted on the other layers (refit)",
    }
    ways = [text for way, text in how.items() if any(record.ablated == way for record in held)]
    return f"rise of the dev loss without a layer ({unit}): {' or '.join(ways)}"


WEIGHTS = LayerMeasure(
    lambda record: record.weights,
    f"layer weights{_WEIGHING}",
    partial(_weights_line, "after"),
    distances_text,
    before=lambda record: record.initial_weights,
)
RAW_WEIGHTS = LayerMeasure(
    lambda record: record.raw_weights or {},
    f"weights before the softmax{_WEIGHING}",
    partial(_weights_line, "before"),
    lifted=False,
    signed=True,
)
INITIAL = LayerMeasure(
    lambda record: record.initial_weights,
    "layer weights from before training; run `probekit train` with a head that weighs the layers "
    "of each row, such as --head attention-fusion.",
    lambda held: "weight of each layer before training",
)
SHARES = LayerMeasure(
    lambda record: record.shares,
    "shares of the logits. `probekit train` records them for heads that sum over layers (all "
    "but depth-lstm and extra-layers) with a linear decoder, a CRF over one, or a linear "
    "regression.",
    lambda held: (
        "each layer's share of the logits' variance on dev; sums to 1, negative where a layer "
        "works against the others"
    ),
    signed=True,
)
ABLATION = LayerMeasure(
    lambda record: record.ablation,
    "the loss without a layer; run `probekit train --ablate mean` (or refit) with a head that "
    "reads several layers.",
    _ablation_line,
    way=lambda record: record.ablated,
    decimals=4,
    lifted=False,
    signed=True,
)
MEASURES: Mapping[str, LayerMeasure] = {
    "weights": WEIGHTS,
    "initial": INITIAL,
    "shares": SHARES,
    "ablation": ABLATION,
}
"""By the name of their table."""


def check_one_ablation(records: Sequence[Record]) -> None:
    """Refuse records that leave layers out in more than one way.

    Raises:
        OptionError: they do.
    """
    if len({record.ablated for record in records}) > 1:
        raise OptionError(
            "some records leave a layer out by its mean and others by refitting, which are two "
            "measures; choose one: --where ablated=mean or --where ablated=refit."
        )
