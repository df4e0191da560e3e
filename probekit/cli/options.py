"""Arguments and options that several commands share, so that they mean the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Hub id, local folder or .gguf file; for training also the path of an entry.",
    ),
]
Task = Annotated[
    str,
    typer.Argument(
        metavar="TASK", help="A task (see `probekit tasks`), or the path of your own data."
    ),
]
OptionalTask = Annotated[
    str | None,
    typer.Argument(
        metavar="[TASK]", help="A task, or the path of your own data; none if MODEL is an entry."
    ),
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder with the task's published files.")
]
Cache = Annotated[Path, typer.Option("--cache", help="Root folder of the feature cache.")]
Kind = Annotated[
    str | None, typer.Option("--kind", help="For your own data: tagging (the only kind so far).")
]
TextColumn = Annotated[
    str | None, typer.Option("--text", help="For your own data: name or index of the text column.")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
EntryKey = Annotated[
    str | None,
    typer.Option("--entry", help="Which entry, if several match: key, folder name or path."),
]


def split_list(text: str) -> list[str]:
    """Split a comma-separated option; empty items are left out."""
    return [item.strip() for item in text.split(",") if item.strip()]
