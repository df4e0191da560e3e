"""Tables with a row per layer: scores by depth, and layer weights."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from probekit.errors import RecordError
from probekit.metrics.scale import scale_of
from probekit.registry import choose
from probekit.report.styles import LAYOUTS, SCORE_TEXT, STYLES, Score, Style
from probekit.results.columns import Column, interval_cells
from probekit.results.groups import grouped, series
from probekit.results.interval import Interval
from probekit.results.names import layer_text
from probekit.results.record import Record
from probekit.results.scored import mean_score
from probekit.results.weights import mean_weights, with_weights


def depth_table(
    records: Sequence[Record], score: Score = "eval_score", style: Style = "text"
) -> str:
    """Return scores by depth: layers as rows (``0 = emb``), heads and their options as columns.

    Scores are percent (perplexity: raw) with the half width of their 95 % interval over seeds. The
    heading of the layers says which score it is; the last dev score stands beside the best one,
    where it differs.

    Args:
        records: records; those that are not of a truncated depth are left out.
        score: which score.
        style: as for ``table``; ``jsonl`` gives one object per depth and column.

    Raises:
        RecordError: no record has a depth, or a cell would average over more than seeds.
    """
    records = [r for r in records if r.depth is not None and getattr(r, score) is not None]
    if not records:
        raise RecordError(
            f"no records with a depth and a {SCORE_TEXT[score]} score; run `probekit depth` first."
        )
    both = score == "eval_score" and any(r.eval_last != r.eval_score for r in records)
    shown: tuple[Score, ...] = ("eval_score", "eval_last") if both else (score,)
    columns, factors = {}, []
    for name, members in series(records, given=["depth"]).items():
        for one in shown:
            title = f"{name}: {SCORE_TEXT[one]}" if both else name
            columns[title] = {
                depth: mean_score(group, one, f"{name}, depth {depth}")
                for (depth,), group in grouped(members, ["depth"]).items()
            }
            factors.append(scale_of(members[0].metric).factor)
    heading = "layer" if both else f"layer, {SCORE_TEXT[score]}"
    return _layer_table(columns, style, decimals=2, factors=factors, heading=heading)


def weights_table(records: Sequence[Record], raw: bool = False, style: Style = "text") -> str:
    """Return the weight of every layer: layers as rows (``0 = emb``), heads as columns.

    Args:
        records: records; those of heads without weights are left out.
        raw: weights before the softmax.
        style: as for ``table``; ``jsonl`` gives one object per layer and column.

    Raises:
        RecordError: no record has such weights, or a column would average over more than seeds.
    """
    columns = {
        name: mean_weights(members, raw, name)
        for name, members in series(with_weights(records, raw)).items()
    }
    return _layer_table(columns, style, decimals=3, factors=[1.0] * len(columns))


def _layer_table(
    columns: Mapping[str, Mapping[int, Interval]],
    style: Style,
    decimals: int,
    factors: Sequence[float],
    heading: str = "layer",
) -> str:
    choose("table style", style, STYLES)
    layers = sorted({layer for column in columns.values() for layer in column})
    if style == "jsonl":
        return "".join(
            json.dumps({"series": name, "layer": layer, **asdict(value)}, ensure_ascii=False) + "\n"
            for name, column in columns.items()
            for layer, value in sorted(column.items())
        )
    shown = [Column(heading, [layer_text(layer) for layer in layers], words=True)]
    for (name, column), factor in zip(columns.items(), factors, strict=True):
        values = [column[n].scaled(factor) if n in column else None for n in layers]
        shown.append(Column(name, interval_cells(values, decimals)))
    return LAYOUTS[style](shown)
