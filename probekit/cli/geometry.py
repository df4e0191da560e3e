"""``probekit geometry``: what the layers look like, without labels."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from probekit.base.registry import flag, option
from probekit.cli import arguments
from probekit.cli.output import print_json, show
from probekit.cli.spread import spread
from probekit.errors import OptionError


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
    sample: int = option(2_000, "Draw so many of these for the intrinsic dimension.", min=3)
    seed: int = option(0, "Of both draws, and of the interval.")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The figure, if one is wanted."""

    output: arguments.FigureFile = None
    probes: Annotated[
        list[Path] | None,
        typer.Option("--probes", help="Records of `probekit depth`: their scores in the figure."),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Of --probes, only records with this value. Repeatable."),
    ] = None


@spread
def geometry(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="As for `probekit train`; or the path of an entry, or of what --json wrote.",
        ),
    ],
    task: arguments.OptionalTask = None,
    *,
    measured: Measured,
    drawn: Drawn,
    look: arguments.FigureLook,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="In place of all that, how far each layer lies from that of another model, such "
            "as the one that MODEL was trained from.",
        ),
    ] = None,
    entry: arguments.EntryName = None,
    cache: arguments.Cache = Path("cache"),
    text: arguments.OwnText,
    json: arguments.Json = False,
) -> None:
    """Measure every layer without labels: CKA, rank, anisotropy, dimension, norms, outliers.

    Columns: effective rank of the rows' covariance, mean cosine between rows, intrinsic dimension
    (TwoNN) with its 95 % interval, mean row norm and its deviation, CKA with the layer before and
    with the last one, massive channels.
    """
    _check(measured, drawn, look, against)
    if against is None and task is None and Path(model).suffix == ".json":
        from probekit.results.layer_geometry import load_geometry

        _check_nothing_to_measure(model, [measured, text], entry)
        measures: Any = load_geometry(model)
    else:
        from probekit.features import Location

        location = Location(cache=cache, entry=entry, **text.parse().given)
        asked = {**asdict(measured), "rows": measured.rows or None, "location": location}
        measures = _measure(model, task, against, asked)
    changed = against is not None
    if json:
        print_json([measures.to_json()])
    else:
        from probekit.results.layer_geometry import change_table, geometry_table

        table = change_table(measures) if changed else geometry_table(measures)
        show(replace(table, caption="").text(), nl=False)
        show(table.caption, err=True)
    if drawn.output is not None:
        _draw(measures, drawn, look, changed=changed)


def _measure(model: str, task: str | None, against: str | None, asked: dict[str, Any]) -> Any:
    """Measure layers, or how far they lie from those of another model."""
    if against is None:
        from probekit.measures.measuring import geometry as measure

        return measure(model, task, **asked)
    from probekit.measures.measuring import change

    del asked["sample"]
    return change(model, against, task, **asked)


def _check(
    measured: Measured, drawn: Drawn, look: arguments.FigureLook, against: str | None
) -> None:
    """Refuse options that do not go together, before anything is measured."""
    if drawn.output is None and (drawn.probes or drawn.where):
        raise OptionError("--probes and --where are for the figure: say where to draw it, -o FILE.")
    if against is not None and (drawn.probes or measured.sample != Measured.sample):
        raise OptionError(
            "--against measures the change of layers alone: leave --probes and --sample out."
        )
    look.check(drawn.output)


def _check_nothing_to_measure(path: str, groups: list[Any], entry: str | None) -> None:
    """Refuse options of a measurement beside one that was made."""
    typed = [
        field.name
        for group in groups
        for field in fields(group)
        if getattr(group, field.name) != field.default
    ] + ["entry"] * (entry is not None)
    if typed:
        raise OptionError(
            f"{flag(typed[0])}: {path} holds what was measured, and nothing is measured again; "
            "leave it out, or give MODEL and TASK."
        )


def _draw(measures: Any, drawn: Drawn, look: arguments.FigureLook, *, changed: bool) -> None:
    """Write the figure, and say where."""
    from probekit.plots.geometry_panels import plot_change, plot_geometry
    from probekit.plots.style import save_figure
    from probekit.results import load_records, select

    assert drawn.output is not None
    if changed:
        figure = plot_change(measures, look=look.parse())
    else:
        records = select(load_records(drawn.probes), drawn.where or []) if drawn.probes else []
        figure = plot_geometry(measures, records, look=look.parse())
    save_figure(figure, drawn.output)
    show(str(drawn.output), err=True)
