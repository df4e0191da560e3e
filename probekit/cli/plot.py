"""``probekit plot``: figures from records."""

from pathlib import Path
from typing import Annotated, Any

import typer

_KINDS = "weights, depth, fewshot, fraction, learning, classes, confusion or attention."
Kind = Annotated[str, typer.Argument(metavar="KIND", help=_KINDS)]
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUNS...", help="Records files (runs/<model>/<task>.jsonl).")
]


def plot(
    kind: Kind,
    runs: Runs,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="FILE.png, .svg or .pdf; KIND.png if unset."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Only records with this value, e.g. shots=128. Repeatable."),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="weights: values before the softmax.")] = False,
    along: Annotated[str, typer.Option("--along", help="learning: step or epoch.")] = "step",
    split: Annotated[str, typer.Option("--split", help="classes: dev or test.")] = "dev",
    classes: Annotated[
        str, typer.Option("--classes", help="classes, attention: only these, separated by commas.")
    ] = "",
) -> None:
    """Draw a figure of RUNS: layer weights, curves, or what became of single classes."""
    from probekit.errors import OptionError
    from probekit.plots import PLOTS, save_figure
    from probekit.registry import choose
    from probekit.results import load_records
    from probekit.results.select import select

    draw = choose("plot", kind, PLOTS)
    chosen = [name.strip() for name in classes.split(",") if name.strip()]
    options: dict[str, dict[str, Any]] = {
        "weights": {"raw": raw},
        "learning": {"along": along},
        "classes": {"split": split, "classes": chosen},
        "attention": {"classes": chosen},
    }
    if chosen and "classes" not in options.get(kind, {}):
        raise OptionError(
            f"--classes {classes}: plot {kind} draws no single classes; leave it out, or plot "
            "classes or attention."
        )
    records = select(load_records(runs), where or [])
    path = output or Path(f"{kind}.png")
    save_figure(draw(records, **options.get(kind, {})), path)
    typer.echo(str(path))
