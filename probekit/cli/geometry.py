"""``probekit geometry``: what the layers look like, without labels."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from probekit.base.registry import option
from probekit.cli import arguments
from probekit.cli.output import print_json, show
from probekit.cli.spread import spread


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Which rows are measured."""

    split: str | None = option(None, "Whose rows.", show_default="train")
    array: str | None = option(
        None,
        "Which rows: words, predicted, cls, mean, last or tokens.",
        show_default="what probes read",
    )
    rows: int = option(20_000, "Measure so many rows, drawn; 0 is all of them.", min=0)


@spread
def geometry(
    model: arguments.Model,
    task: arguments.OptionalTask = None,
    *,
    measured: Measured,
    output: arguments.FigureFile = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="In place of all that, how far each layer lies from that of another model, such "
            "as the one that MODEL was trained from.",
        ),
    ] = None,
    cache: arguments.Cache = Path("cache"),
    json: arguments.Json = False,
) -> None:
    """Measure every layer without labels: CKA, rank, anisotropy, dimension, norms, outliers.

    Columns: effective rank of the rows' covariance, mean cosine between rows, intrinsic dimension
    (TwoNN) with its 95 % interval, mean row norm and its deviation, CKA with the layer before and
    with the last one, massive channels.
    """
    from probekit.features import Location

    arguments.check_figure(output)
    asked = {**asdict(measured), "rows": measured.rows or None}
    asked["location"] = Location(cache=cache)
    measures = _measure(model, task, against, asked)
    if json:
        print_json([measures.to_json()])
    else:
        from probekit.results.layer_geometry import change_table, geometry_table

        table = geometry_table(measures) if against is None else change_table(measures)
        show(replace(table, caption="").text(), nl=False)
        show(table.caption, err=True)
    if output is not None:
        from probekit.plots.geometry_panels import plot_change, plot_geometry
        from probekit.plots.style import save_figure

        plot = plot_geometry if against is None else plot_change
        save_figure(plot(measures), output)
        show(str(output), err=True)


def _measure(model: str, task: str | None, against: str | None, asked: dict[str, Any]) -> Any:
    """Measure layers, or how far they lie from those of another model."""
    if against is None:
        from probekit.measures.measuring import geometry as measure

        return measure(model, task, **asked)
    from probekit.measures.measuring import change

    return change(model, against, task, **asked)
