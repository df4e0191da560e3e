"""``probekit compare``: is one run better than another on the same sentences?"""

from typing import Annotated

import typer

_HELP = (
    "A records file; where it holds several settings, with conditions that leave one of them, "
    "such as #head=p32#shots=128 (or #head=p32,shots=128), or with #KEY of a record."
)


def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help=_HELP)],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="Likewise.")],
    split: Annotated[str, typer.Option("--split", help="test, dev, or dev-mm of MNLI.")] = "test",
    samples: Annotated[int, typer.Option("--samples", help="Bootstrap samples.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Of the bootstrap.")] = 0,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="For both: only this value, e.g. shots=128. Repeatable."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON line.")] = False,
) -> None:
    """Compare two runs that kept their --predictions: a paired bootstrap over sentences.

    For example: probekit compare conll.jsonl#head=dwatt conll.jsonl#head=last --where shots=128
    """
    from probekit.cli.output import print_comparison
    from probekit.results import comparison

    conditions = where or []
    a, b = (comparison.choose_run(run, conditions) for run in (run_a, run_b))
    print_comparison(comparison.compare(a, b, split=split, samples=samples, seed=seed), json=json)
