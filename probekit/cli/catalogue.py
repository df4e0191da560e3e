"""``probekit tasks`` and ``probekit heads``: what there is to choose from."""

import typer

from probekit.cli import options


def tasks(json: options.Json = False) -> None:
    """List the tasks, their label columns (default first) and metrics."""
    from probekit.cli.output import print_table
    from probekit.tasks import TASKS

    rows = [
        {
            "task": task.name
            if family.variants or not family.variant
            else f"{name}/{family.variant}",
            "kind": " + ".join(dict.fromkeys(task.kinds.values())),
            "labels": list(task.columns),
            "metric": list(dict.fromkeys(task.metrics.values())),
            "text": family.summary,
        }
        for name, family in TASKS.items()
        for task in family.tasks()
    ]
    print_table(rows, json=json)
    if not json:
        typer.echo(
            "\nThe first label column is the default. Your own data: give the path of a .conll, "
            ".conllu, .jsonl, .parquet, .csv or .tsv file, or of a folder with one file per split; "
            "--kind says what it labels."
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
                "lr": head.learning_rate,
                "source": head.source,
            }
            for name, head in HEADS.items()
        ],
        json=json,
    )
