"""``probekit geometry``: what the layers look like, without labels."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.base.registry import flag, option
from probekit.cli import arguments
from probekit.cli.output import print_json, print_table
from probekit.cli.spread import spread
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.results.layer_geometry import Geometry, LayerGeometry
    from probekit.results.record import Record

_UNDEFINED = "-"


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
    sample: int = option(2_000, "Rows of these for the intrinsic dimension, at most.", min=3)
    seed: int = option(0, "Of both draws.")


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
    entry: Annotated[
        str | None,
        typer.Option("--entry", help="Which entry, if several match: key, folder name or path."),
    ] = None,
    cache: arguments.Cache = Path("cache"),
    own: arguments.OwnData,
    json: arguments.Json = False,
) -> None:
    """Measure every layer without labels: CKA, rank, anisotropy, dimension, norms, outliers.

    Columns: effective rank, mean cosine between rows, intrinsic dimension (TwoNN), mean row norm
    and its deviation, CKA with the layer before and with the last one, massive channels.
    """
    if drawn.output is None and (drawn.probes or drawn.where):
        raise OptionError("--probes and --where are for the figure: say where to draw it, -o FILE.")
    look.check(drawn.output)
    arguments.check_order(model, task)
    if task is None and Path(model).suffix == ".json":
        from probekit.results.layer_geometry import load_geometry

        _check_nothing_to_measure(model, [measured, own], entry)
        found = load_geometry(model)
    else:
        from probekit.features import Location
        from probekit.measures.measuring import geometry as measure

        place = Location(cache=cache, entry=entry, **own.parse().given)
        asked = {**asdict(measured), "rows": measured.rows or None}
        found = measure(model, task, location=place, **asked)
    if json:
        print_json([found.to_json()])
    else:
        print_table([_row(found, place) for place in range(len(found.layers))])
        typer.echo(_caption(found), err=True)
    if drawn.output is not None:
        records = _probes(drawn.probes or [], drawn.where or [])
        _draw(found, records, drawn.output, look)


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


def _row(found: "Geometry", place: int) -> dict[str, Any]:
    """Return a line of the table."""
    layer = found.layers[place]
    before = found.cka[place][place - 1] if place else None
    return {
        "layer": layer.layer,
        "rank": _number(layer.effective_rank, 1),
        "cosine": _number(layer.anisotropy, 3),
        "dimension": _number(layer.intrinsic_dimension, 1),
        "norm": f"{layer.norm:.4g} ± {layer.norm_deviation:.2g}",
        "CKA before": _number(before, 3),
        "CKA last": _number(found.cka[place][-1], 3),
        "massive": _massive_text(layer),
    }


def _number(value: float | None, decimals: int) -> str:
    return _UNDEFINED if value is None else f"{value:.{decimals}f}"


def _massive_text(layer: "LayerGeometry") -> str:
    """Return the channels with massive activations, each with its rows: ``138 (2,490 rows)``."""
    shown = [f"{one.channel} ({one.rows:,} rows)" for one in layer.massive[:2]]
    more = [f"{len(layer.massive) - 2} more"] if len(layer.massive) > 2 else []
    return ", ".join([*shown, *more]) or _UNDEFINED


def _caption(found: "Geometry") -> str:
    """Return what was measured, and what the columns are."""
    of = f" of {found.of_rows:,}" if found.rows < found.of_rows else ""
    few = " Fewer rows than channels: the rank is too low, CKA too high." * (found.rows < found.dim)
    return (
        f"{found.model}, {found.task} {found.split}: {found.rows:,}{of} rows of {found.array}, "
        f"{found.dim} wide; dimension by TwoNN from {found.sample:,} rows; massive: over 100 and "
        f"1,000 times the layer's median magnitude.{few}"
    )


def _probes(files: list[Path], where: list[str]) -> "list[Record]":
    from probekit.results import load_records
    from probekit.results.summaries.select import select

    return select(load_records(files), where) if files else []


def _draw(
    found: "Geometry", records: "list[Record]", output: Path, look: arguments.FigureLook
) -> None:
    """Write the figure, and say where."""
    from probekit.plots.geometry_panels import plot_geometry
    from probekit.plots.style import save_figure

    save_figure(plot_geometry(found, records, look=look.parse()), output)
    typer.echo(str(output), err=True)
