"""``probekit predict``: run a saved head on new text."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import options


def predict(
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="Folder of a saved head.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Sentences, one per line; - reads stdin.")
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="Where the model lies now, if it has moved.")
    ] = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Label new text with a saved head; words are separated by spaces."""
