"""``probekit predict``: label new text with a saved head."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import options


def predict(
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="Folder of a saved head.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="One sentence per line, words apart by spaces; - is stdin."
        ),
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="Where the model lies now, if it has moved.")
    ] = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Label new text with a saved head: one word and its label per line."""
    from probekit.cli.output import print_json, progress_wanted
    from probekit.prediction import predict as label_sentences
    from probekit.prediction import read_sentences

    lines = sys.stdin.readlines() if file == "-" else _read_lines(Path(file))
    sentences = read_sentences(lines)
    labels = label_sentences(
        head, sentences, model=model, device=device, progress=progress_wanted()
    )
    pairs = list(zip(sentences, labels, strict=True))
    if json:
        print_json([{"words": words, "labels": found} for words, found in pairs])
        return
    for words, found in pairs:
        for word, label in zip(words, found, strict=True):
            typer.echo(f"{word}\t{label}")
        typer.echo("")


def _read_lines(path: Path) -> list[str]:
    from probekit.errors import DataError, MissingFileError

    try:
        return path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        raise MissingFileError(f"no file {path}. Give a text file, or - for stdin.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error}).") from None
