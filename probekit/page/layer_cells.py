"""Pictures of what each layer counts: weights, shares and ablations, by task and head."""

from collections.abc import Iterator, Sequence

from probekit.page.page_figure import Cell, PageFigure
from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped, series, varying
from probekit.results.summaries.layer_measures import ABLATION, SHARES, WEIGHTS, LayerMeasure
from probekit.results.summaries.wording import model_text

_SHOWN = {"weights": WEIGHTS, "shares of the logits": SHARES, "loss without a layer": ABLATION}

_LEAST_LAYERS = 2  # a head of one layer has nothing to divide


def layer_figures(records: Sequence[Record]) -> Iterator[PageFigure]:
    """Yield a heatmap per model and measure: tasks and heads as rows, layers as columns."""
    for what, measure in _SHOWN.items():
        held = [one for one in records if len(measure.values(one)) >= _LEAST_LAYERS]
        held = [one for one in held if one.depth is None] or held
        for (model,), group in grouped(held, ["model"]).items():
            ways = sorted({measure.way(record) or "" for record in group})
            for way in ways:
                own = [record for record in group if (measure.way(record) or "") == way]
                title = ", ".join(part for part in (what, model_text(model), way) if part)
                yield _figure(title, own, measure)


def _figure(title: str, records: Sequence[Record], measure: LayerMeasure) -> PageFigure:
    lead = ["task", "label", "head"] if varying(records, ["task", "label"]) else ["head"]
    rows: list[Sequence[Cell]] = []
    for name, members in series(records, lead=lead).items():
        means = measure.means(members, name)
        # coloured by the multiple of an equal part, or by the share of the row's largest
        largest = max(abs(one.mean) for one in means.values()) or 1.0
        unit = 1 / len(means) if measure.lifted else largest
        for layer, one in means.items():
            rows.append([name, layer, one.mean, one.mean / unit, one.half, one.n])
    coloured_by = "times an equal part" if measure.lifted else "of the largest in its row"
    said = measure.text(records)
    if measure.lifted:
        said += "\ncoloured by how many times an equal part it is (1: all layers alike)"
    return PageFigure(
        section="weights",
        kind="cells",
        title=title,
        caption=said,
        columns=["row", "layer", title.split(",")[0], coloured_by, "half width", "seeds"],
        rows=rows,
    )
