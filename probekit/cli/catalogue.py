"""``probekit tasks`` and ``probekit heads``: what there is to choose from."""

import typer

from probekit.cli import options


def tasks(json: options.Json = False) -> None:
    """List the tasks, their label columns (default first) and metrics."""
    from probekit.cli.output import print_table
    from probekit.tasks import TASKS

    rows = [
        {
            "task": name,
            "kind": family.kind,
            "labels": ", ".join(family.columns),
            "metric": ", ".join(dict.fromkeys(family.metrics.values())),
            "published files read with --data DIR": family.files,
        }
        for name, family in TASKS.items()
    ]
    print_table(rows, json=json)
    if not json:
        typer.echo(
            "\nYour own data: give the path of a .conll, .conllu, .jsonl, .parquet, .csv or .tsv "
            "file, or of a folder with one file per split, as TASK."
        )


def heads(json: options.Json = False) -> None:
    """List the fusion heads with their formulas, layers, learning rates and sources."""
    from probekit.cli.output import print_table
    from probekit.heads import HEADS

    print_table(
        [
            {
                "head": name,
                "h =": head.formula,
                "layers": head.default_layers,
                "lr": f"{head.learning_rate:g}",
                "source": head.source,
            }
            for name, head in HEADS.items()
        ],
        json=json,
    )


