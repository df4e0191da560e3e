"""Transfer of attention fusion on WikiAnn, English to German and French (its paper's Tables 3, 4).

A fusion trained on English is frozen, and only the decoder is trained on the target, on all of it
(Table 4) and on 5 % (Table 3); against the same head trained on that of the target alone, and
against the average of layers, a frozen fusion that was trained on nothing. Twice: solved, with a
linear decoder, and by the paper's protocol (Adam, constant 2e-3, CRF, batches of 32; 5 epochs of
all, 20 of 5 %). Three seeds, which start from the saved head of the same seed; a solver on all of
train has none. Finished runs are skipped. The saved heads of English go to --work, not into the
results; whoever deletes them trains English, and what starts from it, again.

    make analyses MODELS=models DATA=data
    python analyses/transfer_wikiann.py MODEL --workers 2 --work runs/transfer
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shared import RESULTS, arguments, cell, interval_text, markdown, paired, runner, write

from probekit import Location, Record, TrainSpec, product, sweep
from probekit.train.sweeps.protocols import get_protocol

NAME = "transfer_wikiann"
RECORDS = RESULTS / f"{NAME}.jsonl"
SOURCE, TARGETS = "wikiann/en", ("wikiann/de", "wikiann/fr")
FUSION, UNTRAINED = "attention-fusion", "mean"
SEEDS = range(3)
FEW = 0.05
HEADER = (
    "target",
    "fit",
    "trained on the target",
    "frozen, from English",
    "`mean`",
    "frozen - trained",
    "frozen - `mean`",
)

INTRODUCTION = f"""\
Span F1 on test (%), mean ± half width of the 95 % interval over {len(SEEDS)} seeds; differences are
paired over seeds, in points. 5,000 sentences of each language are extracted. The paper has a
multilingual BERT and MultiATIS++; an English model reads the targets through what it knows of them.
The paper's Table 4 says that a frozen fusion costs next to nothing; `mean` is what a frozen fusion
that knows nothing reads, so that the last column is what was transferred."""


def main() -> None:
    """Train what is missing, then write both tables."""
    args = arguments(__doc__, work=True)
    run = runner(RECORDS, args)
    parts = [f"# Transfer on WikiAnn, {Path(args.model).name}", INTRODUCTION]
    lines: dict[float | None, list[list[str]]] = {None: [], FEW: []}
    for fit, base in bases(args.model).items():
        saved = {seed: save(replace(base, seed=seed), fit, args) for seed in SEEDS}
        for task in TARGETS:
            for share, table in lines.items():
                epochs = 20 if share and base.epochs else base.epochs
                own = replace(base, task=task, fraction=share, epochs=epochs)
                plan = product(own, {"seed": SEEDS})
                frozen = [replace(s, fusion_from=saved[s.seed], freeze_fusion=True) for s in plan]
                found = run(plan), run(frozen), run([replace(s, head=UNTRAINED) for s in plan])
                table.append([task, fit, *compared(*found)])
    for share, table in lines.items():
        title = f"{share:.0%} of the target (Table 3)" if share else "All of the target (Table 4)"
        parts.append(f"## {title}\n\n{markdown(HEADER, table, words=2)}")
    write(NAME, parts)


def bases(model: str) -> dict[str, TrainSpec]:
    """Return the options of a run on English, by how it is fitted."""
    protocol = get_protocol("attention-fusion")
    solved = TrainSpec(model=model, task=SOURCE, head=FUSION)
    options = {**protocol.options, "epochs": 5, "evals": 1}
    return {
        "solved": solved,
        "published": replace(solved, decoder=protocol.decoders["tagging"], **options),
    }


def save(spec: TrainSpec, fit: str, args: argparse.Namespace) -> str:
    """Train a run on English if it is missing, and return the folder of its saved head."""
    folder: Path = args.work / NAME / f"{fit}-seed{spec.seed}"
    sweep([spec], out=RECORDS, location=Location(cache=args.cache), save=folder, progress=True)
    return str(folder)


def compared(
    own: Sequence[Record], frozen: Sequence[Record], untrained: Sequence[Record]
) -> list[str]:
    """Return the three scores, and what the frozen fusion has more than the other two."""
    differences = [interval_text(paired(frozen, one), sign=True) for one in (own, untrained)]
    return [*map(cell, (own, frozen, untrained)), *differences]


if __name__ == "__main__":
    main()
