"""What structural probes found of the trees in each layer: numbers, their JSON form, a table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from probekit.results.comparison.resampling import Estimate
from probekit.results.summaries.diagnosis import MARK
from probekit.results.summaries.interval import LEVEL, holm
from probekit.results.summaries.typeset import Column, Table
from probekit.results.summaries.wording import layer_text, numbers_text
from probekit.results.tables.by_layer import NEAR


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
        undecided = {number for number, level in holm(p).items() if level >= LEVEL}
        return sorted(undecided | {self.best})

    def to_json(self) -> dict[str, Any]:
        """Return all numbers by name."""
        return {**asdict(self), "best": self.best, "within": self.within}


def structure_table(found: Structure) -> Table:
    """Return the four scores of each layer in percent, with their intervals."""
    numbers = [layer.layer for layer in found.layers]
    marks = [NEAR if layer.layer in found.within else "" for layer in found.layers]
    stars = ["" if layer.converged else MARK for layer in found.layers]
    scores = {
        "UUAS": [layer.uuas for layer in found.layers],
        "distance Spearman": [layer.distance_spearman for layer in found.layers],
        "root": [layer.root for layer in found.layers],
        "depth Spearman": [layer.depth_spearman for layer in found.layers],
    }
    columns = [Column(f"layer, {found.split}", list(map(layer_text, numbers)), words=True)]
    for name, values in scores.items():
        shown = marks if name == "UUAS" else [""] * len(marks)
        cells = [
            f"{value.text(100)}{near}{star}"
            for value, near, star in zip(values, shown, stars, strict=True)
        ]
        columns.append(Column(name, cells))
    lines = [
        f"best on dev: layer {found.best}; {NEAR} UUAS within noise of it: "
        f"{numbers_text(found.within, numbers)} (paired bootstrap, Holm)",
        f"joining every word to its neighbours has UUAS {100 * found.chain:.1f}",
    ]
    if any(stars):
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
    if not any(value.high for value in scores["distance Spearman"]):
        lines.append("no sentence has 5 to 50 words: rank correlations are 0")
    if found.punctuation:
        lines.append("punctuation counts as words: there is no label column upos")
    caption = (
        f"{found.model}, {found.task}: structural probes of rank {found.rank}, in percent, with "
        f"95 % intervals over {found.over} (bootstrap)"
    )
    return Table(columns, lines, caption)
