"""``probekit card``: a card for a saved run on the Hub."""

from pathlib import Path
from typing import Annotated

import typer


def card(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a saved head or run.")],
) -> None:
    """Write README.md into the folder of a saved run: a model card for the Hub.

    It says the base model, task, method and scores, and how to load it all; what you write outside
    of its marks stays when it is written again.
    """
    from probekit.train.saved.model_card import write_model_card

    typer.echo(str(write_model_card(run)))
