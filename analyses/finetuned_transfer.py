"""Transfer of a fine-tuned model on WikiAnn, English to two languages (attention fusion, Table 3).

Trained on English and then on 5 % of the target, head and decoder included: attention fusion and
the last layer over frozen rows, and all of the model. Beside them the frozen heads on those 5 %
alone. 2,000 sentences of each split and language are extracted. Adam at a constant 2e-3, batches of
32, 5 epochs of English and 20 of the target; of two rates of the model, the better one in a trial
on another seed. Finished runs are skipped; saved runs of English, and the entries of the models
that they trained, go to --work and to --cache, not into the results.

The plan, of one core: two trials, three seeds of English and six runs of targets, 2 minutes each,
and six extractions: half an hour.

    make analyses MODELS=models DATA=data
    python analyses/finetuned_transfer.py MODEL --data data --workers 2 --work runs --cache CACHE
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shared import (
    RESULTS,
    argument_parser,
    at_best_rates,
    backbone_rates,
    judged,
    runner,
    trained_into,
    write,
)

from probekit import ExtractOptions, Record, TrainSpec, extract, product
from probekit.train.sweeps.protocols import get_protocol

NAME = "finetuned_transfer"
RECORDS = RESULTS / f"{NAME}.jsonl"
SOURCE, TARGETS = "wikiann/en", ("wikiann/de", "wikiann/fr")
HEADS = ("last", "attention-fusion")
SEEDS = range(3)
LIMIT = 2000
FEW = 0.05
EPOCHS, EPOCHS_OF_FEW = 5, 20
BACKBONE_RATES = (2e-5, 1e-4)
BY = ("method", "init")

INTRODUCTION = f"""\
Span F1 on test in percent, {len(SEEDS)} seeds; the target has {FEW * LIMIT:.0f} sentences. `init`
is what was trained before, a digest of its options last. The paper has a multilingual BERT and
MultiATIS++; an English model reads the targets through what it knows of them. The last column is
the difference with its 95 % interval, over seeds and sentences together, in bold what is sure after
Holm's correction of all rows of the table at 5 %."""


def main() -> None:
    """Extract and train what is missing, then write the tables."""
    parser = argument_parser(__doc__, "model", data=True)
    parser.add_argument("--work", type=Path, default=Path("runs"), help="for saved runs")
    args = parser.parse_args()
    cached(args.model, (SOURCE, *TARGETS), args)
    run = runner(RECORDS, args, predictions=True)
    options = {**get_protocol("attention-fusion").options, "epochs": EPOCHS, "evals": 1}
    source = TrainSpec(model=args.model, task=SOURCE, head="last", decoder="linear", **options)
    english = product(source, {"head": HEADS, "seed": SEEDS})
    saved(english, args)
    frozen = run([spec for one in english for spec in targets(one, init_from=folder(one, args))])
    alone = run([spec for one in english for spec in targets(one)])
    tuned: list[Record] = []
    trained = at_best_rates(
        lambda plan: saved(plan, args),
        [replace(source, method="full")],
        backbone_rates(BACKBONE_RATES),
        SEEDS,
    )
    for one in trained:
        spec = replace(source, method=one.method, seed=one.seed, rates=tuple(one.rates.items()))
        model = f"{Path(args.model).name}-english{one.seed}"
        cached(str(folder(spec, args) / "backbone"), TARGETS, args, name=model, layers="-1")
        tuned += run(targets(replace(spec, model=model), init_from=folder(spec, args)))
    tuned = as_of(frozen, tuned)
    write(
        NAME,
        [
            f"# Transfer on WikiAnn, frozen and fine-tuned, {Path(args.model).name}",
            INTRODUCTION,
            judged(
                "From English, against attention fusion",
                [*frozen, *tuned],
                "attention-fusion",
                by=BY,
            ),
            judged("Frozen, against the target alone", [*frozen, *alone], "init=none", by=BY),
        ],
    )


def cached(
    model: str,
    tasks: Sequence[str],
    args: argparse.Namespace,
    *,
    name: str | None = None,
    layers: str = "all",
) -> None:
    """Extract tasks of a model where they are missing."""
    for task in tasks:
        extract(
            model,
            task,
            data=args.data / task,
            splits=["train", "dev", "test"],
            options=ExtractOptions(limit=LIMIT, layers=layers),
            cache=args.cache,
            name=name,
        )


def saved(plan: Sequence[TrainSpec], args: argparse.Namespace) -> list[Record]:
    """Train runs on English that are missing, and save each into its `folder`."""
    return [
        record for one in plan for record in trained_into(folder(one, args), one, RECORDS, args)
    ]


def folder(spec: TrainSpec, args: argparse.Namespace) -> Path:
    """Return where a run on English is saved."""
    rates = "".join(f"-{rate:g}" for _, rate in spec.rates)
    work: Path = args.work
    return work / NAME / f"{spec.method or spec.head}{rates}-seed{spec.seed}"


def targets(spec: TrainSpec, *, init_from: Path | None = None) -> list[TrainSpec]:
    """Return the runs on a part of each target that have the options of a run on English."""
    start = None if init_from is None else str(init_from)
    few = replace(spec, fraction=FEW, epochs=EPOCHS_OF_FEW, init_from=start)
    return product(few, {"task": TARGETS})


def as_of(others: Sequence[Record], records: Sequence[Record]) -> list[Record]:
    """Return records of several models as of the one of others, which these were trained from."""
    by_task = {one.task: one for one in others}
    pairs = [(one, by_task[one.task]) for one in records]
    return [replace(one, model=other.model, entry=other.entry) for one, other in pairs]


if __name__ == "__main__":
    main()
