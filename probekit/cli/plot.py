"""``probekit plot``: figures from records."""

from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from probekit.cli.options import split_list
from probekit.plots import PLOTS

*_FIRST, _LAST = PLOTS
_KINDS = f"{', '.join(_FIRST)} or {_LAST}."
FigureName = Annotated[str, typer.Argument(metavar="KIND", help=_KINDS)]
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUNS...", help="Records files (runs/<model>/<task>.jsonl).")
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="Only records with this value, e.g. shots=128. Repeatable."),
]
Raw = Annotated[bool, typer.Option("--raw", help="weights: values before the softmax.")]


def plot(
    kind: FigureName,
    runs: Runs,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="FILE.png, .svg or .pdf; KIND.png if unset."),
    ] = None,
    where: Where = None,
    raw: Raw = False,
    along: Annotated[
        str | None, typer.Option("--along", help="learning: step (the default) or epoch.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help="depth, fewshot, fraction: dev, or test (the default where all have one); "
            "classes: dev (the default) or test.",
        ),
    ] = None,
    classes: Annotated[
        str, typer.Option("--classes", help="classes, attention: only these, separated by commas.")
    ] = "",
) -> None:
    """Draw a figure of RUNS: layer weights, curves, or what became of single classes."""
    from probekit.base.registry import choose
    from probekit.errors import OptionError
    from probekit.plots.style import save_figure
    from probekit.results import load_records
    from probekit.results.summaries.select import select

    draw = choose("plot", kind, PLOTS)
    given: dict[str, Any] = {"raw": raw, "along": along, "split": split}
    given["classes"] = split_list(classes)
    options = {name: value for name, value in given.items() if value}
    for name in options:
        if name not in signature(draw).parameters:
            having = [one for one, plot in PLOTS.items() if name in signature(plot).parameters]
            raise OptionError(
                f"--{name}: plot {kind} has no such option; these have: {', '.join(having)}. "
                "Leave it out."
            )
    records = select(load_records(runs), where or [])
    path = output or Path(f"{kind}.png")
    save_figure(draw(records, **options), path)
    typer.echo(str(path))
