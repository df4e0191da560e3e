"""The weight that heads gave each layer, over seeds."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from probekit.results.record import Record
from probekit.results.summaries.diagnosis import SOLVERS
from probekit.results.summaries.interval import interval

_MIXTURES = ("p32", "scalar-mix")


def layer_weights(record: Record, raw: bool) -> Mapping[int, float]:
    """Return a record's weights by layer, before (``raw``) or after the softmax; or none."""
    return (record.raw_weights or {}) if raw else record.weights


def weights_text(records: Sequence[Record], raw: bool) -> str:
    """Return what the weights of some records are, and what they should not be taken for."""
    if raw:
        return "before the softmax"
    parts = ["after the softmax"]
    if any(record.head == "concat" for record in records):
        parts.append("concat: share of the logits")
    return "; ".join(parts)


def caution_text(records: Sequence[Record]) -> str:
    """Return why some weights say less than they seem to; or nothing.

    A penalty on the norm of a map is a penalty on the scale of what it reads: of layers that are
    not standardised, a solver's L2 prefers the large ones, whatever they know.
    """
    favoured = any(
        record.head in _MIXTURES and record.fitter in SOLVERS and record.normalize == "none"
        for record in records
    )
    return "raw layers: L2 favours large ones" if favoured else ""


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
    lines = {name: _distances(members) for name, members in columns.items()}
    found = [f"{name}: {line}" for name, line in lines.items() if line]
    meaning = "(distances are half the sum of absolute differences: 0 the same, 1 disjoint)"
    return [*found, meaning] if found else []


def _distances(members: Sequence[Record]) -> str:
    moved = [distance(one.weights, one.initial_weights) for one in members if one.initial_weights]
    apart = _apart([one.weights for one in members])
    before = _apart([one.initial_weights for one in members if one.initial_weights])
    parts = []
    if moved:
        mean = interval(moved)
        half = "" if mean.half is None else f" ± {mean.half:.3f}"
        parts.append(f"training moved weights by {mean.mean:.3f}{half}")
    if apart:  # neither a single seed, nor seeds that decide nothing
        earlier = "" if before is None else f" (before training {before:.3f})"
        parts.append(f"seeds are {apart:.3f} apart{earlier}")
    return ", ".join(parts)


def _apart(found: Sequence[Mapping[int, float]]) -> float | None:
    """Return the mean distance of all pairs; None where there is no pair."""
    pairs = [distance(*pair) for pair in combinations(found, 2)]
    return math.fsum(pairs) / len(pairs) if pairs else None
