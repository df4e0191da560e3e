"""``probekit predict``: label new text with a saved head."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.cli import arguments
from probekit.cli.output import print_json, progress_wanted
from probekit.cli.spread import OptionsOf, spread

if TYPE_CHECKING:
    from probekit.train.saved.items import Item

    Label = list[str] | str | float

_OF_FILES = OptionsOf((arguments.OwnData,), apart=("kind", "skip_unlabelled"))


@spread
def predict(
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="Folder of a saved head.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="One text per line, as the head was trained: words apart by spaces, running text, "
            "or two texts apart by a TAB; - is stdin. Files of other formats (see `probekit "
            "tasks`) are read as `probekit extract` reads them, without their labels.",
        ),
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="Where the model lies now, if it has moved.")
    ] = None,
    device: arguments.Device = "auto",
    *,
    of_files: Annotated[Mapping[str, Any], _OF_FILES],
    json: arguments.Json = False,
) -> None:
    """Label new text with a saved head: each word, each text or each pair of texts."""
    from probekit.tasks import TextOptions
    from probekit.train.saved.head import TrainedHead
    from probekit.train.saved.items import file_items, line_items
    from probekit.train.saved.predict import predict as label_texts

    trained = TrainedHead.from_pretrained(head)
    own = TextOptions(**of_files)
    if file == "-":
        items = line_items(sys.stdin.buffer.read(), "stdin", trained, own)
    else:
        items = file_items(Path(file), trained, own)
    found: Sequence[Label] = label_texts(
        trained, items, model=model, device=device, progress=progress_wanted()
    )
    if json:
        print_json([_row(item, label) for item, label in zip(items, found, strict=True)])
        return
    for item, label in zip(items, found, strict=True):
        if isinstance(label, list):
            for word, tag in zip(item, label, strict=True):
                typer.echo(f"{word}\t{tag}")
            typer.echo("")
        else:
            typer.echo(f"{_one_line(item)}\t{label}")


def _row(item: "Item", label: "Label") -> dict[str, Any]:
    """Return a text and its label, or a sentence's words and theirs, for a JSON line."""
    name = "labels" if isinstance(label, list) else "label"
    if isinstance(item, list):
        return {"words": item, name: label}
    if isinstance(item, str):
        return {"text": item, name: label}
    return {"text": item[0], "text_pair": item[1], name: label}


def _one_line(item: "Item") -> str:
    if isinstance(item, str):
        return item
    return (" " if isinstance(item, list) else "\t").join(item)
