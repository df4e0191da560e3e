"""Transfer of attention fusion on WikiAnn, English to German and French (its paper's Tables 3, 4).

A fusion trained on English is frozen, and only the decoder is trained on the target, on all of it
(Table 4) and on 5 % (Table 3); against the same head trained on that of the target alone, and
against the average of layers, a frozen fusion that was trained on nothing. Three times: solved,
with a linear decoder; by the paper's steps (Adam, constant 2e-3, batches of 32; 5 epochs of all, 20
of 5 %), with that decoder; and by its protocol, with a CRF. Three seeds, which start from the saved
head of the same seed; a solver on all of train has none, so that there is one. Finished runs are
skipped. The saved heads of English go to --work, not into the results; whoever deletes them trains
English, and what starts from it, again.

    make analyses MODELS=models DATA=data
    python analyses/transfer_wikiann.py MODEL --workers 2 --work runs/transfer
"""

import argparse
from dataclasses import replace
from pathlib import Path

from shared import RESULTS, argument_parser, judged, runner, trained_into, write

from probekit import TrainSpec, product
from probekit.train.sweeps.protocols import get_protocol

NAME = "transfer_wikiann"
RECORDS = RESULTS / f"{NAME}.jsonl"
SOURCE, TARGETS = "wikiann/en", ("wikiann/de", "wikiann/fr")
FUSION, UNTRAINED = "attention-fusion", "mean"
SEEDS = range(3)
FEW = 0.05
BY = ("fraction", "freeze")

INTRODUCTION = f"""\
Span F1 on test in percent, {len(SEEDS)} seeds (one where a solver reads all of the target). 5,000
sentences of each language are extracted. The paper has a multilingual BERT and MultiATIS++; an
English model reads the targets through what it knows of them. `freeze` has the fusion of English,
which costs next to nothing as the paper's Table 4 says; an average is a frozen fusion that knows
nothing, so what is ahead of it was transferred. The last column is the difference with its 95 %
interval, over seeds and sentences together where seeds differ, in bold what is sure after Holm's
correction of all rows of the table at 5 %."""


def main() -> None:
    """Train what is missing, then write the tables."""
    parser = argument_parser(__doc__, "model")
    parser.add_argument("--work", type=Path, default=Path("runs"), help="for saved heads")
    args = parser.parse_args()
    run = runner(RECORDS, args, predictions=True)
    parts = [f"# Transfer on WikiAnn, {Path(args.model).name}", INTRODUCTION]
    for fit, base in bases(args.model).items():
        seeds = seeds_of_all(base)
        saved = [save(replace(base, seed=seed), fit, args) for seed in seeds]
        own = [spec for task in TARGETS for spec in of_target(replace(base, task=task))]
        frozen = [
            replace(spec, fusion_from=saved[spec.seed % len(saved)], freeze_fusion=True)
            for spec in own
        ]
        fusions = [*run(own), *run(frozen)]
        averages = run([replace(spec, head=UNTRAINED) for spec in own])
        parts += [
            judged(f"{fit}, against an average", [*fusions, *averages], UNTRAINED, by=BY),
            judged(f"{fit}, frozen against trained on the target", fusions, "freeze=False", by=BY),
        ]
    write(NAME, parts)


def seeds_of_all(base: TrainSpec) -> range:
    """Return the seeds of runs on all of train, one where they are solved."""
    return SEEDS if base.epochs else SEEDS[:1]


def of_target(base: TrainSpec) -> list[TrainSpec]:
    """Return the runs on all of a target and on a part of it."""
    few = replace(base, fraction=FEW, epochs=base.epochs and 20)
    return product(base, {"seed": seeds_of_all(base)}) + product(few, {"seed": SEEDS})


def bases(model: str) -> dict[str, TrainSpec]:
    """Return the options of a run on English, by how it is fitted."""
    protocol = get_protocol("attention-fusion")
    solved = TrainSpec(model=model, task=SOURCE, head=FUSION)
    published = replace(solved, **{**protocol.options, "epochs": 5, "evals": 1})
    return {
        "Solved, with a linear decoder": solved,
        "Published steps, with a linear decoder": replace(published, decoder="linear"),
        "Published, with a CRF": replace(published, decoder=protocol.decoders["tagging"]),
    }


def save(spec: TrainSpec, fit: str, args: argparse.Namespace) -> str:
    """Train a run on English if it is missing, and return the folder of its saved head."""
    name = fit.lower().replace(",", "").replace(" ", "-")
    folder: Path = args.work / NAME / f"{name}-seed{spec.seed}"
    trained_into(folder, spec, RECORDS, args)
    return str(folder)


if __name__ == "__main__":
    main()
