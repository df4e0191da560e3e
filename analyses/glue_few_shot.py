"""Sentence and pair tasks of GLUE with few examples: every head, with two poolings.

RTE, MRPC, CoLA and SST-2 at 128 shots (256 texts), STS-B with 1 and 5 % of train (57 and 287
pairs), 50 epochs, 5 seeds, each head's default decoder. The published test splits have no labels,
so scores are of dev. Finished runs are skipped: the script can be stopped and resumed.

    probekit extract MODEL glue/rte --data DATA --split train,dev --keep cls,mean,last,tokens
    (and so for glue/mrpc, glue/cola, glue/sst2, glue/stsb)
    python analyses/glue_few_shot.py MODEL --workers 2
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared import (
    RATES,
    RATES_TEXT,
    RESULTS,
    arguments,
    cell,
    markdown,
    of_head,
    runner,
    section,
    with_rates,
    write,
)

from probekit import Record, TrainSpec, plot_weights, save_figure
from probekit.results.tables import Score

NAME = "glue_few_shot"
AMOUNTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "glue/rte": ({"shots": 128},),
    "glue/mrpc": ({"shots": 128},),
    "glue/cola": ({"shots": 128},),
    "glue/sst2": ({"shots": 128},),
    "glue/stsb": ({"fraction": 0.01}, {"fraction": 0.05}),
}
SEEDS = range(5)
EPOCHS = 50
POOLED = tuple(head for head in RATES if head != "extra-layers")
"""Heads that read the mean of a text's tokens as well."""

INTRODUCTION = f"""\
Dev scores (%), mean ± half width of the 95 % interval over {len(SEEDS)} seeds. The checkpoint is
the best of ten on the dev split that is also the score, so "dev best" is optimistic; "dev last" is
the score after the last step, which nothing chose.

{RATES_TEXT}"""


def main() -> None:
    """Train what is missing, then write the tables and the figure."""
    args = arguments(__doc__)
    run = runner(RESULTS / f"{NAME}.jsonl", args)
    first, mean = (
        run([replace(spec, pooling=pooling) for spec in plan(args.model, heads)])
        for pooling, heads in (("cls", tuple(RATES)), ("mean", POOLED))
    )
    parts = [f"# Few-shot GLUE, {first[0].model}", INTRODUCTION]
    parts.append(overview("Dev best, pooling cls", first, "eval_score", tuple(RATES)))
    parts.append(overview("Dev last, pooling cls", first, "eval_last", tuple(RATES)))
    parts.append(
        "The local sentence encoders were trained for mean pooling. With it, all heads but "
        "`extra-layers`, by far the slowest:"
    )
    parts.append(overview("Dev best, pooling mean", mean, "eval_score", POOLED))
    parts.append(overview("Dev last, pooling mean", mean, "eval_last", POOLED))
    parts += [section(task, of_task(first, task)) for task in AMOUNTS]
    write(NAME, parts)
    weighing = [r for r in first if r.head in ("p32", "attention-fusion") and r.shots]
    save_figure(plot_weights(weighing), RESULTS / f"{NAME}_weights.png")


def plan(model: str, heads: Sequence[str]) -> list[TrainSpec]:
    """Return the runs of some heads."""
    return [
        spec
        for task, amounts in AMOUNTS.items()
        for amount in amounts
        for spec in with_rates(
            TrainSpec(model=model, task=task, head="last", epochs=EPOCHS, **amount), heads, SEEDS
        )
    ]


def of_task(records: Sequence[Record], task: str) -> list[Record]:
    """Return the records of one task."""
    return [record for record in records if record.task == task]


def overview(title: str, records: Sequence[Record], score: Score, heads: Sequence[str]) -> str:
    """Return one line per head and one column per task and amount."""
    columns = {
        f"{task.removeprefix('glue/')}, {size_text(amount)}": [
            record
            for record in of_task(records, task)
            if all(getattr(record, name) == value for name, value in amount.items())
        ]
        for task, amounts in AMOUNTS.items()
        for amount in amounts
    }
    lines = [
        [f"`{head}`", *(cell(of_head(column, head), score) for column in columns.values())]
        for head in heads
    ]
    return f"## {title}\n\n{markdown(['head', *columns], lines)}"


def size_text(amount: Mapping[str, Any]) -> str:
    """Return an amount for people."""
    if "shots" in amount:
        return f"{amount['shots']:g} shots"
    return f"{amount['fraction']:.0%} of train"


if __name__ == "__main__":
    main()
