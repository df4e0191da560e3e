"""``probekit plot``: figures from records."""

from pathlib import Path
from typing import Annotated, Any

import typer

Kind = Annotated[str, typer.Argument(metavar="KIND", help="weights, depth, fewshot or learning.")]
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
) -> None:
    """Draw layer weights, depth curves, few-shot curves or learning curves of RUNS."""
    from probekit.plots import PLOTS, save_figure
    from probekit.registry import choose
    from probekit.results import load_records
    from probekit.results.select import select

    draw = choose("plot", kind, PLOTS)
    options: dict[str, dict[str, Any]] = {"weights": {"raw": raw}, "learning": {"along": along}}
    records = select(load_records(runs), where or [])
    path = output or Path(f"{kind}.png")
    save_figure(draw(records, **options.get(kind, {})), path)
    typer.echo(str(path))
