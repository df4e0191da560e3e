"""``probekit geometry``: what the layers look like, without labels."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.base.registry import flag, option
from probekit.cli import arguments
from probekit.cli.output import print_json, show
from probekit.cli.spread import spread
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.results.layer_geometry import Geometry
    from probekit.results.record import Record
    from probekit.results.summaries.typeset import Table


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

    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Draw FILE.png, .svg or .pdf as well."),
    ] = None
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
    entry: Annotated[
        str | None,
        typer.Option("--entry", help="Which entry, if several match: key, folder name or path."),
    ] = None,
    cache: arguments.Cache = Path("cache"),
    own: arguments.OwnText,
    json: arguments.Json = False,
) -> None:
    """Measure every layer without labels: CKA, rank, anisotropy, dimension, norms, outliers.

    Columns: effective rank of the rows' covariance, mean cosine between rows, intrinsic dimension
    (TwoNN) with its 95 % interval, mean row norm and its deviation, CKA with the layer before and
    with the last one, massive channels.
    """
    if drawn.output is None and (drawn.probes or drawn.where):
        raise OptionError("--probes and --where are for the figure: say where to draw it, -o FILE.")
    if against is not None and (drawn.probes or measured.sample != Measured.sample):
        raise OptionError(
            "--against measures the change of layers alone: leave --probes and --sample out."
        )
    look.check(drawn.output)
    arguments.check_order(model, task)
    if against is None and task is None and Path(model).suffix == ".json":
        from probekit.results.layer_geometry import load_geometry

        _check_nothing_to_measure(model, [measured, own], entry)
        found = load_geometry(model)
    else:
        from probekit.features import Location

        place = Location(cache=cache, entry=entry, **own.parse().given)
        asked = {**asdict(measured), "rows": measured.rows or None, "location": place}
        if against is not None:
            _change(model, against, task, asked, drawn.output, look, json=json)
            return
        from probekit.measures.measuring import geometry as measure

        found = measure(model, task, **asked)
    if json:
        print_json([found.to_json()])
    else:
        from probekit.results.layer_geometry import geometry_table

        _print(geometry_table(found))
    if drawn.output is not None:
        records = _probes(drawn.probes or [], drawn.where or [])
        _draw(found, records, drawn.output, look)


def _change(
    model: str,
    against: str,
    task: str | None,
    asked: dict[str, Any],
    output: Path | None,
    look: arguments.FigureLook,
    *,
    json: bool,
) -> None:
    """Measure how far layers of a model lie from those of another; print that, and draw it."""
    from probekit.measures.layer_changes import change
    from probekit.results.layer_geometry import change_table

    del asked["sample"]
    found = change(model, against, task, **asked)
    if json:
        print_json([found.to_json()])
    else:
        _print(change_table(found))
    if output is not None:
        from probekit.plots.geometry_panels import plot_change
        from probekit.plots.style import save_figure

        save_figure(plot_change(found, look=look.parse()), output)
        show(str(output), err=True)


def _print(table: "Table") -> None:
    """Print a table, and what it is to the standard error."""
    show(replace(table, caption="").text(), nl=False)
    show(table.caption, err=True)


def _check_nothing_to_measure(path: str, groups: list[Any], entry: str | None) -> None:
    """Refuse options of a measurement beside one that was made."""
    typed = [
        one.name for group in groups for one in fields(group)
        if getattr(group, one.name) != one.default
    ] + ["entry"] * (entry is not None)  # fmt: skip
    if typed:
        raise OptionError(
            f"{flag(typed[0])}: {path} holds what was measured, and nothing is measured again; "
            "leave it out, or give MODEL and TASK."
        )


def _probes(files: list[Path], where: list[str]) -> "list[Record]":
    from probekit.results import load_records, select

    return select(load_records(files), where) if files else []


def _draw(
    found: "Geometry", records: "list[Record]", output: Path, look: arguments.FigureLook
) -> None:
    """Write the figure, and say where."""
    from probekit.plots.geometry_panels import plot_geometry
    from probekit.plots.style import save_figure

    save_figure(plot_geometry(found, records, look=look.parse()), output)
    show(str(output), err=True)
