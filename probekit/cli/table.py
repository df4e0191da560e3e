"""``probekit table``: scores or layer weights of records, as text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from probekit.report import Row, Score, Style
    from probekit.results import Record


def table(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUNS...", help="Records files (runs/<model>/<task>.jsonl)."),
    ],
    of: Annotated[
        str, typer.Option("--of", help="scores; or depth or weights, with a row per layer.")
    ] = "scores",
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Only records with this value, e.g. shots=128. Repeatable."),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="depth: dev (the default) or test.")
    ] = None,
    style: Annotated[str, typer.Option("--style", help="text, markdown or jsonl.")] = "text",
) -> None:
    """Print what RUNS hold: means over seeds with 95 % intervals. Nothing is trained."""
    from probekit.errors import OptionError
    from probekit.registry import choose
    from probekit.report import weights_table
    from probekit.results import load_records
    from probekit.results.select import select

    choose("table", of, dict.fromkeys(("scores", "depth", "weights")))
    styles: dict[str, Style] = {"text": "text", "markdown": "markdown", "jsonl": "jsonl"}
    scores: dict[str, Score] = {"dev": "eval_score", "test": "test_score"}
    if split is not None and of != "depth":
        raise OptionError(f"--split: a table of {of} has no such option; leave it out.")
    layout, score = choose("style", style, styles), choose("split", split or "dev", scores)
    records = select(load_records(runs), where or [])
    if of == "weights":
        text = weights_table(records, style=layout)
    elif of == "depth":
        text = _depths(records, score, layout)
    else:
        text = _scores(records, layout)
    typer.echo(text, nl=False)


def _scores(records: "Sequence[Record]", style: "Style") -> str:
    from probekit.report import summarise, table

    rows = summarise(records)
    return table(rows, style) + _caption(rows, style)


def _depths(records: "Sequence[Record]", score: "Score", style: "Style") -> str:
    from probekit.report import depth_table, summarise

    text = depth_table(records, score, style)
    rows = summarise([record for record in records if record.depth is not None])
    return text + _caption(rows, style, score)


def _caption(rows: "Sequence[Row]", style: "Style", score: "Score | None" = None) -> str:
    """Return the line below a table; JSON lines have none."""
    from probekit.report import caption

    if style == "jsonl":
        return ""
    return ("\n" if style == "markdown" else "") + caption(rows, score) + "\n"
