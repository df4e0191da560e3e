"""``probekit lens``: what each layer would predict."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.cli import arguments
from probekit.cli.output import print_json, progress_wanted, show

if TYPE_CHECKING:
    from probekit.results.lens_scores import LensScores, TextReading
    from probekit.results.summaries.typeset import Table


def lens(
    model: arguments.Model,
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK|TEXT",
            help="A task of language modelling in the cache; or a text in quotes, of two words or "
            "more, that the model runs over.",
        ),
    ],
    lens: Annotated[
        str,
        typer.Option(
            "--lens",
            help="logit; tuned, which is fitted on --fit-on; or the folder of a tuned lens.",
        ),
    ] = "logit",
    layers: Annotated[str, typer.Option("--layers", help="Which layers: all, -1, 0,4,8.")] = "all",
    split: Annotated[str, typer.Option("--split", help="What is scored.")] = "test",
    fit_on: Annotated[
        str, typer.Option("--fit-on", help="The split that a tuned lens is fitted on.")
    ] = "train",
    rows: Annotated[
        int,
        typer.Option("--rows", help="So many predictions, drawn; 0 is all of them.", min=0),
    ] = 2_000,
    save: Annotated[
        Path | None, typer.Option("--save", help="Folder to write the tuned lens to.")
    ] = None,
    cache: arguments.Cache = Path("cache"),
    device: arguments.Device = "auto",
    json: arguments.Json = False,
) -> None:
    """Score what every layer would predict if the model's output head read it.

    Loss, rank and accuracy of the next or masked token, and the divergence from the last layer,
    with intervals over texts (logit lens; tuned lens, Belrose et al. 2023). Of a TEXT in place of a
    task, the most probable token at each place and layer.
    """
    from probekit.features import Location
    from probekit.measures.lens_heads import lens_of_text
    from probekit.measures.lenses import lens as measure
    from probekit.results.lens_scores import lens_table, text_table

    shared: dict[str, Any] = {"lens": lens, "layers": layers, "device": device}
    if len(task.split()) > 1 and not os.path.exists(task):  # which a long text is not
        reading = lens_of_text(model, task, **shared)
        _print(reading, text_table(reading), json=json)
        return
    shared |= {"split": split, "fit_on": fit_on, "rows": rows or None, "save": save}
    location = Location(cache=cache)
    found = measure(model, task, **shared, location=location, progress=progress_wanted())
    _print(found, lens_table(found), json=json)


def _print(found: "LensScores | TextReading", table: "Table", *, json: bool) -> None:
    if json:
        print_json([found.to_json()])
    else:
        show(table.text(), nl=False)
