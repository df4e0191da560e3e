"""``probekit geometry``, ``structure``, ``lens``: what each layer holds, by no head of a sweep."""

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.base.registry import option
from probekit.cli import arguments
from probekit.cli.output import print_found, progress_wanted, show
from probekit.cli.run_list import at_entry
from probekit.cli.spread import spread
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.results.layer_scores import TextPredictions


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
    from probekit.measures import measuring
    from probekit.results.layer_geometry import change_table, geometry_table

    if output is not None:
        from probekit.plots.style import check_format

        check_format(output)
    asked = {**asdict(measured), "rows": measured.rows or None, "location": Location(cache=cache)}
    found: Any
    if against is None:
        found = measuring.geometry(model, task, **asked)
        table = geometry_table(found)
    else:
        found = measuring.change(model, against, task, **asked)
        table = change_table(found)
    print_found(found, replace(table, caption=""), json=json)
    if not json:
        show(table.caption, err=True)
    if output is not None:
        from probekit.plots.geometry_panels import plot_change, plot_geometry
        from probekit.plots.style import save_figure

        save_figure((plot_geometry if against is None else plot_change)(found), output)
        show(str(output), err=True)


def structure(
    model: arguments.Model,
    task: arguments.Task,
    layers: arguments.Layers = "all",
    rank: Annotated[int, typer.Option("--rank", help="Rows of the linear maps.")] = 128,
    epochs: Annotated[int, typer.Option("--epochs", help="Passes over train, at most.")] = 40,
    split: Annotated[
        str | None,
        typer.Option("--split", help="test or dev.", show_default="test where it is labelled"),
    ] = None,
    cache: arguments.Cache = Path("cache"),
    json: arguments.Json = False,
) -> None:
    """Train structural probes: how well a linear map of each layer shows dependency trees.

    UUAS and rank correlations of distances, the root and rank correlations of depths, with
    intervals over sentences (Hewitt & Manning 2019).
    """
    from probekit.features import Location
    from probekit.measures.structural import structure as measure
    from probekit.results.layer_scores import structure_table

    asked: dict[str, Any] = {"layers": layers, "rank": rank, "epochs": epochs, "split": split}
    found = measure(
        model, task, **asked, location=Location(cache=cache), progress=progress_wanted()
    )
    print_found(found, structure_table(found), json=json)


@dataclass(frozen=True, kw_only=True)
class LensOptions:
    """Which lens, and which predictions it is fitted on and scored by."""

    lens: str = option(
        "logit",
        "logit, tuned or jacobian (the last two are fitted), or the folder or file of a saved "
        "lens.",
    )
    layers: arguments.Layers = "all"
    split: str = option("test", "The split to score.")
    fit_on: str = option("train", "The split that the lens is fitted on.")
    rows: int = option(
        2_000, "How many predictions to sample for scoring and for fitting; 0 uses all.", min=0
    )
    save: Path | None = option(None, "Folder to save the fitted lens in.")


@spread
def lens(
    model: arguments.Model,
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK|TEXT",
            help="A language-modelling task in the cache, or a quoted text of at least two words; "
            "none if MODEL is an entry.",
        ),
    ] = None,
    *,
    asked: LensOptions,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page",
            metavar="FILE.html",
            help="For a TEXT, also write an HTML page with the top tokens at each layer and "
            "position.",
        ),
    ] = None,
    cache: arguments.Cache = Path("cache"),
    device: arguments.Device = "auto",
    json: arguments.Json = False,
) -> None:
    """Score what every layer would predict if the model's output head read it.

    Reports loss, rank and accuracy of the target token, and the divergence from the last layer,
    with intervals over texts (logit lens; tuned lens, Belrose et al. 2023; Jacobian lens, Gurnee et
    al. 2026). For a TEXT, prints the top token at each position and layer.
    """
    from probekit.measures.lenses import lens as measure
    from probekit.results.layer_scores import lens_table, text_table

    if task is not None and _is_text(task):
        if asked.save is not None:
            raise OptionError("--save is for a task: nothing is fitted on a text. Leave it out.")
        predicted = _read_text(model, task, asked, page, device)
        print_found(predicted, text_table(predicted), json=json)
        return
    if page is not None:
        raise OptionError("--page shows a text: give a quoted one in place of the task.")
    model, task, location = at_entry(model, task, cache)
    options: dict[str, Any] = {**vars(asked), "rows": asked.rows or None, "device": device}
    found = measure(model, task, **options, location=location, progress=progress_wanted())
    print_found(found, lens_table(found), json=json)


def _is_text(task: str) -> bool:
    """Tell whether several words are a text, not the name of a file, which may be mistyped."""
    from probekit.tasks.formats.text_lines import named_format
    from probekit.tasks.user_files import FORMATS

    file = os.path.exists(task) or named_format(Path(task)) in FORMATS
    return len(task.split()) > 1 and not file


def _read_text(
    model: str, text: str, asked: LensOptions, page: Path | None, device: str
) -> "TextPredictions":
    """Return what each layer predicts at each position of a text, and write the page of it."""
    from probekit.measures.lenses import lens_of_text
    from probekit.page.report_page import check_report, write_lens_page

    if page is not None:
        check_report(page)
    predicted = lens_of_text(model, text, lens=asked.lens, layers=asked.layers, device=device)
    if page is not None:
        write_lens_page(page, predicted)
    return predicted
