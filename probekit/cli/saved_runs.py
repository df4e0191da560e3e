"""``probekit merge`` and ``card``: the folder of a saved run, made ready for others."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import arguments
from probekit.cli.output import show


def merge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a saved run.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the model, a new one.")],
    model: arguments.ModelNow = None,
    trust_remote_code: arguments.TrustRemoteCode = False,
) -> None:
    """Write the model that a saved run trained as one that AutoModel.from_pretrained loads.

    What lora, bitfit and diff-prune trained is added to the values of the base model; the head is
    not part of it.
    """
    from probekit.train.saved.merged_model import merge_run

    show(str(merge_run(run, folder, model=model, trust_remote_code=trust_remote_code)))


def card(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a saved head or run.")],
) -> None:
    """Write README.md into the folder of a saved run: a model card for the Hub.

    It says the base model, task, method and scores, and how to load it all; what you write outside
    of its marks stays when it is written again.
    """
    from probekit.train.saved.model_card import write_model_card

    show(str(write_model_card(run)))
