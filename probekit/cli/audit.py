"""``probekit audit``: what else reads the labels of a probe."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import arguments
from probekit.cli.arguments import Json
from probekit.cli.output import print_json, progress_wanted, show


def audit(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A records file with predictions; where it holds several settings, with "
            "conditions that leave one of them, such as #head=p32,shots=128.",
        ),
    ],
    split: Annotated[
        str | None,
        typer.Option("--split", help="test or dev.", show_default="test where there is one"),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="PART",
            help="Also read the texts without a part, such as system, between:<b>:</b> or "
            "regex:R. Repeatable.",
        ),
    ] = None,
    cache: arguments.Cache = Path("cache"),
    data: arguments.Data = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Records of the readers; beside RUN, NAME-audit.jsonl if unset."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train simpler readers of the same labels, and say which read them as well as the probe.

    Length, bag of words and TF-IDF of whole texts, the most frequent class of each word; the
    embeddings alone; random weights, if the cache has them. Exit code 1 if one does as well, or if
    nothing is left to the probe without a part (--without).
    """
    from probekit.features import Location
    from probekit.results.comparison import choose_run
    from probekit.train.baselines.auditing import audit as audit_run
    from probekit.train.baselines.auditing import audit_table

    chosen = choose_run(run)
    file = Path(run.partition("#")[0])
    found = audit_run(
        chosen,
        out=out or file.with_name(f"{file.stem}-audit.jsonl"),
        location=Location(cache=cache, data=data),
        split=split,
        without=without or (),
        progress=progress_wanted(),
    )
    if json:
        print_json(found.to_json())
    else:
        show(audit_table(found).text(), nl=False)
    if not found.passed:
        raise typer.Exit(1)
