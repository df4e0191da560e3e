"""What lenses and structural probes find in each layer: numbers, their JSON form, tables."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, inf, isinf
from typing import Any

from probekit.results.comparison.resampling import Estimate
from probekit.results.summaries.diagnosis import MARK
from probekit.results.summaries.interval import undecided
from probekit.results.summaries.typeset import Column, Table
from probekit.results.summaries.wording import layer_text, numbers_text
from probekit.results.tables.by_layer import NEAR


@dataclass(frozen=True, kw_only=True)
class LayerPrediction:
    """What one layer predicts, each number a mean over rows with its interval over texts.

    Attributes:
        layer: its number.
        loss: negative log-probability of the token that is to be predicted, in nats.
        log_rank: logarithm of that token's rank among all tokens; 0 is the first.
        accuracy: share of rows whose most probable token is that one.
        agreement: share of rows whose most probable token is the last layer's.
        settled: share of rows whose most probable token is the last layer's at this layer and all
            later ones that were scored.
        divergence: of the last layer's distribution from this one (Kullback-Leibler), in nats.
    """

    layer: int
    loss: Estimate
    log_rank: Estimate
    accuracy: Estimate
    agreement: Estimate
    settled: Estimate
    divergence: Estimate


STATISTICS = ("loss", "log_rank", "accuracy", "agreement", "settled", "divergence")
"""What is measured of each row and layer; see `LayerPrediction`."""


@dataclass(frozen=True, kw_only=True)
class LensScores:
    """What every layer would predict through a lens.

    Attributes:
        model: name of the backbone.
        task: name of the task.
        split: what was scored.
        lens: ``logit``, ``tuned``, ``jacobian``, or the folder or file of a lens.
        rows: predictions that were scored.
        of_rows: predictions that there are.
        over: what the intervals are over, such as ``60 documents``.
        strengths: of the ridge of a tuned lens, by layer; infinite where the logit lens was better.
        layers: of each layer, ascending.
    """

    model: str
    task: str
    split: str
    lens: str
    rows: int
    of_rows: int
    over: str
    layers: Sequence[LayerPrediction]
    strengths: Mapping[int, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return all numbers by name; a strength that is infinite is None."""
        strengths = {n: None if isinf(value) else value for n, value in self.strengths.items()}
        return {**asdict(self), "strengths": strengths}


@dataclass(frozen=True, kw_only=True)
class PositionPrediction:
    """What one layer predicts at one position of a text.

    Attributes:
        layer: its number.
        tokens: the most probable ones, best first.
        probabilities: theirs.
        rank: of the token that is to be predicted, from 1 on; None where there is none.
        probability: of that token; None where there is none.
    """

    layer: int
    tokens: Sequence[str]
    probabilities: Sequence[float]
    rank: int | None
    probability: float | None


@dataclass(frozen=True, kw_only=True)
class TextPredictions:
    """What every layer predicts at every position of a text.

    Attributes:
        model: name of the backbone.
        lens: ``logit``, or the folder or file of a lens.
        causal: whether a position predicts the next token; else its own.
        tokens: of the text, special tokens included.
        positions: of each token, what each layer predicts there.
    """

    model: str
    lens: str
    causal: bool
    tokens: Sequence[str]
    positions: Sequence[Sequence[PositionPrediction]]

    def to_json(self) -> dict[str, Any]:
        """Return all of it by name."""
        return asdict(self)


def text_table(found: TextPredictions) -> Table:
    """Return each layer's top token at each position, and the rank of the target token."""
    layers = [one.layer for one in found.positions[0]]
    columns = [Column("token", [repr(token) for token in found.tokens], words=True)]
    for index, layer in enumerate(layers):
        at_layer = [position[index] for position in found.positions]
        ranks = ["" if one.rank is None else f" {one.rank:,}" for one in at_layer]
        cells = [f"{one.tokens[0]!r}{rank}" for one, rank in zip(at_layer, ranks, strict=True)]
        columns.append(Column(layer_text(layer), cells, words=True))
    predicted = "the next token" if found.causal else "the token itself"
    caption = (
        f"{found.model}, {found.lens} lens: the most probable token at each layer, and behind it "
        f"the rank of {predicted}"
    )
    return Table(columns, [], caption)


def lens_table(found: LensScores) -> Table:
    """Return the six numbers of each layer with their intervals; ranks as geometric means."""
    readings = found.layers
    columns = [
        Column(f"layer, {found.split}", [layer_text(one.layer) for one in readings], words=True),
        Column("loss (nats)", [one.loss.text(decimals=2) for one in readings]),
        Column("rank", [_rank(one.log_rank) for one in readings]),
        Column("top 1 (%)", [one.accuracy.text(100) for one in readings]),
        Column("as last (%)", [one.agreement.text(100) for one in readings]),
        Column("settled (%)", [one.settled.text(100) for one in readings]),
        Column("divergence", [one.divergence.text(decimals=2) for one in readings]),
    ]
    lines = []
    if kept := [n for n, strength in found.strengths.items() if strength == inf]:
        lines.append(
            f"logit lens kept at layer{'s' * (len(kept) > 1)} {', '.join(map(str, kept))}: it did "
            "better on the held-out texts"
        )
    caption = (
        f"{found.model}, {found.task}: {found.lens} lens, {found.rows:,} of {found.of_rows:,} "
        f"predictions; means with 95 % intervals over {found.over} (bootstrap). rank: geometric "
        "mean; divergence: KL(last layer, this layer), in nats"
    )
    return Table(columns, lines, caption)


def _rank(value: Estimate) -> str:
    """Return a mean log rank as a rank, with its interval."""
    middle, low, high = (f"{exp(number):,.1f}" for number in (value.value, value.low, value.high))
    return f"{middle} ({low} to {high})"


@dataclass(frozen=True, kw_only=True)
class LayerStructure:
    """How well a linear map of a layer shows trees, each number with its interval over sentences.

    Attributes:
        layer: its number.
        uuas: share of the edges between words, but punctuation, that the minimum spanning tree of
            the predicted distances has.
        distance_spearman: rank correlation of predicted and true distances, over words, then over
            sentences of one length, then over lengths 5 to 50.
        root: share of the sentences whose predicted root, the shallowest word, is the root.
        depth_spearman: rank correlation of predicted and true depths, likewise.
        dev_uuas: of the dev split, which chooses the best layer.
        behind: the best layer's UUAS less its own; None of the best layer itself.
        converged: whether both maps stopped before the last epoch.
    """

    layer: int
    uuas: Estimate
    distance_spearman: Estimate
    root: Estimate
    depth_spearman: Estimate
    dev_uuas: float
    behind: Estimate | None
    converged: bool


@dataclass(frozen=True, kw_only=True)
class Structure:
    """Structural probes of all layers.

    Attributes:
        model: name of the backbone.
        task: name of the task.
        split: what was scored.
        layers: of each layer, ascending.
        chain: UUAS where every word is joined to its neighbours, which needs no model.
        over: what the intervals are over, such as ``2,077 sentences``.
        rank: rows of the maps.
        left_out: sentences of all splits that have no tree, or not all rows.
        punctuation: whether it counts as words, since no part of speech is known.
    """

    model: str
    task: str
    split: str
    layers: Sequence[LayerStructure]
    chain: float
    over: str
    rank: int
    left_out: int
    punctuation: bool

    @property
    def best(self) -> int:
        """The layer with the best UUAS on dev; of equals the lowest."""
        return max(self.layers, key=lambda layer: (layer.dev_uuas, -layer.layer)).layer

    @property
    def within(self) -> list[int]:
        """The best layer, and those whose UUAS does not differ surely from its own (5 %, Holm)."""
        p = {layer.layer: layer.behind.p for layer in self.layers if layer.behind is not None}
        return sorted(undecided(p) | {self.best})

    def to_json(self) -> dict[str, Any]:
        """Return all numbers by name."""
        return {**asdict(self), "best": self.best, "within": self.within}


def structure_table(found: Structure) -> Table:
    """Return the four scores of each layer in percent, with their intervals."""
    numbers = [layer.layer for layer in found.layers]

    def cells(name: str) -> list[str]:
        return [
            getattr(layer, name).text(100)
            + NEAR * (name == "uuas" and layer.layer in found.within)
            + MARK * (not layer.converged)
            for layer in found.layers
        ]

    columns = [
        Column(f"layer, {found.split}", list(map(layer_text, numbers)), words=True),
        Column("UUAS", cells("uuas")),
        Column("distance Spearman", cells("distance_spearman")),
        Column("root", cells("root")),
        Column("depth Spearman", cells("depth_spearman")),
    ]
    lines = [
        f"best on dev: layer {found.best}; {NEAR} UUAS within noise of it: "
        f"{numbers_text(found.within, numbers)} (paired bootstrap, Holm)",
        f"joining every word to its neighbours has UUAS {100 * found.chain:.1f}",
    ]
    if not all(layer.converged for layer in found.layers):
        lines.append(f"{MARK} cut off by --epochs; give more")
    if found.left_out:
        many = "sentence" if found.left_out == 1 else "sentences"
        lines.append(
            f"left out: {found.left_out:,} {many} without a whole tree or without all rows"
        )
    if found.split == "dev":
        lines.append(
            "dev ended the training and chose the best layer too, so its scores are optimistic"
        )
    if not any(layer.distance_spearman.high for layer in found.layers):
        lines.append("no sentence has 5 to 50 words: rank correlations are 0")
    if found.punctuation:
        lines.append("punctuation counts as words: there is no label column upos")
    caption = (
        f"{found.model}, {found.task}: structural probes of rank {found.rank}, in percent, with "
        f"95 % intervals over {found.over} (bootstrap)"
    )
    return Table(columns, lines, caption)
