"""``probekit merge``: the model that a run trained, as a model by itself."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import arguments


def merge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a saved run.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the model, a new one.")],
    trust_remote_code: arguments.TrustRemoteCode = False,
) -> None:
    """Write the model that a saved run trained as one that AutoModel.from_pretrained loads.

    What lora, bitfit and diff-prune trained is added to the values of the base model; the head is
    not part of it.
    """
    from probekit.train.saved.merging import merge_run

    typer.echo(str(merge_run(run, folder, trust_remote_code=trust_remote_code)))
