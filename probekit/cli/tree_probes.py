"""``probekit structure``: trees in the distances between words."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import arguments
from probekit.cli.output import print_json, progress_wanted, show


def structure(
    model: arguments.Model,
    task: arguments.Task,
    layers: Annotated[str, typer.Option("--layers", help="Which layers: all, -1, 0,4,8.")] = "all",
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

    found = measure(
        model,
        task,
        layers=layers,
        rank=rank,
        epochs=epochs,
        split=split,
        location=Location(cache=cache),
        progress=progress_wanted(),
    )
    if json:
        print_json([found.to_json()])
    else:
        show(structure_table(found).text(), nl=False)
