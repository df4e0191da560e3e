"""Tables with a row per layer: scores by depth, and what each layer counts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from probekit.errors import RecordError
from probekit.metrics import scale_of
from probekit.results.comparison import BestDepth, best_depths
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import MARK, marks, marks_along
from probekit.results.summaries.grouping import series
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.layer_measures import (
    ABLATION,
    RAW_WEIGHTS,
    SHARES,
    WEIGHTS,
    LayerMeasure,
)
from probekit.results.summaries.scored import SCORE_TEXT, Score, has_two_scores, score_curve
from probekit.results.summaries.text_layout import Column, interval_cells, marked
from probekit.results.summaries.typeset import Style, laid_out
from probekit.results.summaries.wording import layer_text

NEAR = "~"
"""What marks the depths within noise of the best one."""


@dataclass(frozen=True)
class _Layers:
    """One column: values by layer, also before training, their runs' troubles, the best depth.

    ``factor`` and ``decimals`` are how the values are written.
    """

    values: Mapping[int, Interval]
    before: Mapping[int, Interval] = field(default_factory=dict)
    factor: float = 1.0
    decimals: int = 2
    troubles: Mapping[int, Sequence[str]] = field(default_factory=dict)
    best: BestDepth | None = None

    def mark(self, layer: int) -> str:
        """Return what follows a cell."""
        near = NEAR if self.best and layer in self.best.within else ""
        return near + (MARK if self.troubles.get(layer) else "")

    def to_json(self, layer: int) -> dict[str, Any]:
        """Return a cell, its value as in the records."""
        said: dict[str, Any] = {"marks": list(self.troubles.get(layer, ()))}
        if self.before:
            said["before_training"] = self.before[layer].mean
        if self.best is not None:
            said |= {"best": layer == self.best.best, "within_noise": layer in self.best.within}
        return asdict(self.values[layer]) | said


def depth_table(
    records: Sequence[Record],
    score: Score = "eval_score",
    style: Style = "text",
    best: Mapping[str, BestDepth] | None = None,
) -> str:
    """Return scores by depth: layers as rows (``0 = emb``), heads and their options as columns.

    Scores are percent (perplexity: raw) with the half width of their 95 % interval over seeds. The
    heading of the layers says which score it is; the last dev score stands beside the best one,
    where they are two things. A ``~`` follows the scores of the depths that are within noise of the
    best one on dev, whatever the score, and an asterisk those of runs with a trouble.

    Args:
        records: records; those that are not of a truncated depth are left out.
        score: which score.
        style: as for ``table``; ``jsonl`` gives one object per depth and column.
        best: what ``best_depths`` returned for the records; None computes it.

    Raises:
        RecordError: no record has a depth, or a cell would average over more than seeds.
    """
    records = [r for r in records if r.depth is not None and getattr(r, score) is not None]
    if not records:
        raise RecordError(
            f"no records with a depth and a {SCORE_TEXT[score]} score; run `probekit depth` first."
        )
    both = score == "eval_score" and has_two_scores(records)
    best = best_depths(records) if best is None else best
    shown = {
        (f"{name}: {SCORE_TEXT[one]}" if both else name): _Layers(
            values=score_curve(members, "depth", one, name),
            factor=scale_of(members[0].metric).factor,
            decimals=scale_of(members[0].metric).decimals,
            troubles=marks_along(members, "depth"),
            best=best.get(name) if one == score else None,
        )
        for name, members in series(records, given=["depth"]).items()
        for one in (("eval_score", "eval_last") if both else (score,))
    }
    heading = "layer" if both else f"layer, {'dev' if score == 'eval_score' else SCORE_TEXT[score]}"
    return _layer_table(shown, style, heading=heading)


def weights_table(records: Sequence[Record], raw: bool = False, style: Style = "text") -> str:
    """Return the weight of every layer: layers as rows (``0 = emb``), heads as columns.

    An asterisk follows the weights of runs with a trouble.

    Args:
        records: records; those of heads without weights are left out.
        raw: weights before the softmax.
        style: as for ``table``; ``jsonl`` gives one object per layer and column.

    Raises:
        RecordError: no record has such weights, or a column would average over more than seeds.
    """
    return measure_table(records, RAW_WEIGHTS if raw else WEIGHTS, style)


def shares_table(records: Sequence[Record], style: Style = "text") -> str:
    """Return the share of every layer in the variance of the logits, as `weights_table` does.

    The shares are Cov(what the layer adds, logits) / Var(logits) over the dev rows, and sum to 1
    (``train.contributions``).

    Args:
        records: records; those without shares are left out.
        style: as for ``table``.

    Raises:
        RecordError: no record has shares, or a column would average over more than seeds.
    """
    return measure_table(records, SHARES, style)


def ablation_table(records: Sequence[Record], style: Style = "text") -> str:
    """Return the dev loss without every layer less that with all, as `weights_table` does.

    In nats per row, or of a regression the squared error. Where some records leave a layer out by
    its mean and others by another fit, they have columns of their own.

    Args:
        records: records; those without an ablation are left out.
        style: as for ``table``.

    Raises:
        RecordError: no record has an ablation, or a column would average over more than seeds.
    """
    return measure_table(records, ABLATION, style)


def measure_table(records: Sequence[Record], measure: LayerMeasure, style: Style = "text") -> str:
    """Return a number of every layer: layers as rows (``0 = emb``), heads as columns.

    Args:
        records: records; those that hold no such numbers are left out.
        measure: which number.
        style: as for ``table``; ``jsonl`` gives one object per layer and column.

    Raises:
        RecordError: no record holds any, or a column would average over more than seeds.
    """
    columns = {}
    for name, members in measure.columns(measure.held(records)).items():
        values = measure.means(members, name)
        columns[name] = _Layers(
            values,
            before=measure.means_before(members, name),
            decimals=measure.decimals,
            troubles=dict.fromkeys(values, marks(members)),
        )
    return _layer_table(columns, style)


def _layer_table(columns: Mapping[str, _Layers], style: Style, heading: str = "layer") -> str:
    layers = sorted({layer for column in columns.values() for layer in column.values})
    shown = [Column(heading, [layer_text(one) for one in layers], words=True, values=layers)]
    for name, column in columns.items():
        found = [column.values.get(layer) for layer in layers]
        scaled = [value and value.scaled(column.factor) for value in found]
        texts = interval_cells(scaled, column.decimals)
        cells = marked(texts, [column.mark(layer) for layer in layers])
        shown.append(Column(name, cells, values=scaled))
    objects = (
        {"series": name, "layer": layer, **column.to_json(layer)}
        for name, column in columns.items()
        for layer in sorted(column.values)
    )
    return laid_out(shown, objects, style)
