"""Records as a notebook shows them: the table that ``probekit table`` prints, and one run whole."""

from collections.abc import Mapping, Sequence

from probekit.base.markup import Markup, html_pairs, html_view
from probekit.metrics import scale_of
from probekit.results.record import Record
from probekit.results.summaries.baseline_scores import beside_heads
from probekit.results.summaries.select import select
from probekit.results.summaries.text_layout import Column
from probekit.results.summaries.typeset import html_columns
from probekit.results.summaries.wording import OPTIONS, layer_text, metric_text, value_text
from probekit.results.tables.captions import caption, footnotes
from probekit.results.tables.scores import score_columns, summarise

_SAID = ("model", "task", "label", "head", "metric")
"""Options that the title says."""


def records_view(records: Sequence[Record]) -> Markup:
    """Return the table of scores, over seeds, with the lines below it; trials are left out."""
    if not records:
        return html_view(title="no records")
    shown = beside_heads(select(records, []), [])
    rows = summarise(shown)
    lines = [*footnotes(shown).splitlines(), caption(rows)]
    return html_view(html_columns(score_columns(rows)), notes=lines)


def record_view(record: Record) -> Markup:
    """Return the options, scores and layer measures of one run."""
    scale = scale_of(record.metric)
    scores = {"dev": record.eval_score, "test": record.test_score}
    pairs = {
        **{
            f"{split} {metric_text(record.metric)}": f"{score * scale.factor:.{scale.decimals}f}"
            for split, score in scores.items()
            if score is not None
        },
        **{
            name.replace("_", " "): value_text(name, getattr(record, name))
            for name, option in OPTIONS.items()
            if name not in _SAID and getattr(record, name) not in (None, option.unsaid, {})
        },
        "seed": record.seed,
        "parameters": f"{record.n_params:,}",
        "seconds": f"{record.train_seconds:.1f}",
        "key": record.key,
    }
    title = f"{record.head} on {record.task} {record.label}, {record.model}"
    measures = {
        "weight": record.weights,
        "share": record.shares,
        "ablation": record.ablation,
    }
    notes = footnotes([record]).splitlines()
    return html_view(html_pairs(pairs), layers_part(measures), title=title, notes=notes)


def layers_part(measures: Mapping[str, Mapping[int, float]]) -> str:
    """Return a row per layer, a column per measure that there is; nothing without any."""
    held = {name: values for name, values in measures.items() if values}
    layers = sorted({layer for values in held.values() for layer in values})
    if not layers:
        return ""
    columns = [Column("layer", [layer_text(one) for one in layers], words=True)]
    for name, values in held.items():
        cells = [f"{values[one]:.3f}" if one in values else "" for one in layers]
        columns.append(Column(name, cells))
    return html_columns(columns)
