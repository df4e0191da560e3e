"""``probekit lens``: what each layer would predict."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.cli import arguments
from probekit.cli.output import print_json, progress_wanted, show
from probekit.cli.run_list import at_entry
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.results.layer_scores import LensScores, TextPredictions
    from probekit.results.summaries.typeset import Table


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
    lens: Annotated[
        str,
        typer.Option(
            "--lens",
            help="logit, tuned or jacobian (the last two are fitted), or the folder or file of a "
            "saved lens.",
        ),
    ] = "logit",
    layers: Annotated[str, typer.Option("--layers", help="Which layers: all, -1, 0,4,8.")] = "all",
    split: Annotated[str, typer.Option("--split", help="The split to score.")] = "test",
    fit_on: Annotated[
        str, typer.Option("--fit-on", help="The split that the lens is fitted on.")
    ] = "train",
    rows: Annotated[
        int,
        typer.Option(
            "--rows",
            help="How many predictions to sample for scoring and for fitting; 0 uses all.",
            min=0,
        ),
    ] = 2_000,
    save: Annotated[
        Path | None, typer.Option("--save", help="Folder to save the fitted lens in.")
    ] = None,
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
    from probekit.results.layer_scores import lens_table

    shared: dict[str, Any] = {"lens": lens, "layers": layers, "device": device}
    if task is not None and len(task.split()) > 1 and not os.path.exists(task):
        if save is not None:
            raise OptionError("--save is for a task: nothing is fitted on a text. Leave it out.")
        _read_text(model, task, page, shared, json=json)
        return
    if page is not None:
        raise OptionError("--page shows a text: give a quoted one in place of the task.")
    shared |= {"split": split, "fit_on": fit_on, "rows": rows or None, "save": save}
    model, task, location = at_entry(model, task, cache)
    found = measure(model, task, **shared, location=location, progress=progress_wanted())
    _print(found, lens_table(found), json=json)


def _read_text(
    model: str, text: str, page: Path | None, options: dict[str, Any], *, json: bool
) -> None:
    """Print what each layer predicts at each position of a text, and write the page of it."""
    from probekit.measures.text_lens import lens_of_text
    from probekit.page.report_page import check_report, write_lens_page
    from probekit.results.layer_scores import text_table

    if page is not None:
        check_report(page)
    predicted = lens_of_text(model, text, **options)
    if page is not None:
        write_lens_page(page, predicted)
    _print(predicted, text_table(predicted), json=json)


def _print(found: "LensScores | TextPredictions", table: "Table", *, json: bool) -> None:
    if json:
        print_json([found.to_json()])
    else:
        show(table.text(), nl=False)
