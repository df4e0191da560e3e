"""``probekit table``: scores or layer weights of records, as text."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from probekit.cli.plot import Raw, Runs, Where

if TYPE_CHECKING:
    from probekit.results.summaries.scored import Scored


def table(
    runs: Runs,
    of: Annotated[
        str, typer.Option("--of", help="scores; or depth or weights, with a row per layer.")
    ] = "scores",
    where: Where = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="depth: dev, or test (the default where all have one)."),
    ] = None,
    raw: Raw = False,
    style: Annotated[
        str,
        typer.Option("--style", help="text, markdown or jsonl (scores as in the records)."),
    ] = "text",
) -> None:
    """Print what RUNS hold: means over seeds with 95 % intervals. Nothing is trained."""
    from probekit.base.registry import choose
    from probekit.cli.output import depths_text, scores_text, weights_text
    from probekit.errors import OptionError
    from probekit.results import load_records
    from probekit.results.summaries.select import select
    from probekit.results.tables import STYLES

    choose("table", of, dict.fromkeys(("scores", "depth", "weights")))
    if split is not None and of != "depth":
        raise OptionError(f"--split: a table of {of} has no such option; leave it out.")
    if raw and of != "weights":
        raise OptionError(f"--raw: a table of {of} has no such option; leave it out.")
    layout = choose("table style", style, STYLES)
    records = select(load_records(runs), where or [])
    if of == "weights":
        text = weights_text(records, raw=raw, style=layout)
    elif of == "depth":
        text = depths_text(records, cast("Scored | None", split), layout)
    else:
        text = scores_text(records, layout)
    typer.echo(text, nl=False)
