"""``probekit export``: a linear probe as directions in the states of the model."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import arguments
from probekit.cli.output import checked_default, print_json, print_table, show


def export(
    head: Annotated[
        Path,
        typer.Argument(
            metavar="HEAD",
            help="Folder of a saved head; or of several, each of one layer, as `probekit depth "
            "--save DIR` writes them.",
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--as",
            help="npz or safetensors (direction and bias of every layer and class), or repeng (one "
            "direction per layer, a GGUF control vector for repeng and llama.cpp).",
        ),
    ] = "npz",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file.", show_default="HEAD.npz, ..."),
    ] = None,
    of_class: Annotated[
        str | None,
        typer.Option("--class", help="repeng: the class that the direction leads to."),
    ] = None,
    json: arguments.Json = False,
) -> None:
    """Write a linear probe as a direction per layer and class, for the model's own states.

    Direction and bias, applied to raw hidden states, give the probe's logits: its normalisation is
    folded in.
    """
    from probekit.base.registry import choose
    from probekit.train.saved.direction_files import MARKS, SUFFIXES, about, write_directions
    from probekit.train.saved.directions import VALUE
    from probekit.train.saved.directions import export as directions_of

    suffix = choose("format", form, SUFFIXES)
    found = directions_of(head)
    usual = head.resolve().with_name(head.resolve().name + suffix)
    path = output or checked_default(usual, MARKS[form])
    path = write_directions(found, form, path, name=of_class)
    row = {"path": str(path), "layers": list(found.layers)} | about(found)
    if json:
        print_json([row])
        return
    one = form == "repeng"
    written = found.contrast(of_class).unsqueeze(1) if one else found.direction
    names = [f"|{name}|" for name in ([of_class or VALUE] if one else found.classes)]
    norms = written.norm(dim=2).tolist()
    print_table(
        [
            {"layer": layer, **{name: f"{norm:.4g}" for name, norm in zip(names, own, strict=True)}}
            for layer, own in zip(found.layers, norms, strict=True)
        ]
    )
    show(str(path), err=True)
