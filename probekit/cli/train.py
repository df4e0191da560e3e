"""``probekit train``, ``sweep`` and ``depth``: train heads from the cache."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from probekit.cli import options
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.specs import TrainSpec

T = TypeVar("T")

Label = Annotated[
    str | None, typer.Option("--label", help="Label column; the task's default if unset.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Records file; runs/<model>/<task>.jsonl if unset."),
]
Epochs = Annotated[int, typer.Option("--epochs", help="Passes over the training sentences.")]
Evals = Annotated[
    int, typer.Option("--evals", help="Evenly spaced points at which dev is scored.")
]
HoldOut = Annotated[
    float | None,
    typer.Option("--hold-out", help="Share of train that serves as dev, for data without one."),
]
BatchSize = Annotated[int, typer.Option("--batch-size", help="Sentences per step.")]
Seeds = Annotated[int, typer.Option("--seeds", help="Number of seeds: 0, 1, ...")]
Workers = Annotated[int, typer.Option("--workers", help="Worker processes.")]
Memory = Annotated[
    str | None, typer.Option("--memory", help="Memory that may be used, e.g. 8GB; half of what is free.")
]


def _each(text: str, read: Callable[[str], T], option: str) -> list[T | None]:
    """Read a comma-separated option; ``auto`` and ``none`` stand for unset."""
    values: list[T | None] = []
    for item in options.split_list(text):
        if item in ("auto", "none", "all"):
            values.append(None)
            continue
        try:
            values.append(read(item))
        except ValueError:
            raise OptionError(f"{option} {item!r} is not a number.") from None
    return values
def train() -> None: ...
def sweep() -> None: ...
def depth() -> None: ...
