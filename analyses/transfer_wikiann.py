"""Transfer of attention fusion on WikiAnn, English to German and French (its paper's Tables 3, 4).

Table 4: a fusion trained on all of English is frozen, and only the decoder is trained on all of the
target; against both trained on the target, and against the average of layers, a frozen fusion that
was trained on nothing. Table 3: what was trained on all of English, decoder included, is trained
further on 5 % of the target; against the last layer with the same procedure, and against the 5 %
alone. The paper's protocol (Adam, constant 2e-3, CRF, batches of 32, 3 seeds)
with 5 epochs on full data and 20 on 5 %; a seed starts from the saved head of the same seed.
Finished runs are skipped. The saved heads of English go to --work, not into the results; whoever
deletes them trains English, and what starts from it, again.

    probekit extract MODEL wikiann/en --data DATA --split train,dev,test --keep words
    (and so for wikiann/de, wikiann/fr)
    python analyses/transfer_wikiann.py MODEL --workers 2 --work runs/transfer
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shared import (
    RESULTS,
    arguments,
    cell,
    interval_text,
    markdown,
    of_head,
    paired,
    runner,
    verdict,
    write,
)

from probekit import Location, Record, TrainSpec, product, sweep
from probekit.results.summaries.interval import Interval
from probekit.train.sweeps.protocols import get_protocol

NAME = "transfer_wikiann"
RECORDS = RESULTS / f"{NAME}.jsonl"
SOURCE = "wikiann/en"
TARGETS = ("wikiann/de", "wikiann/fr")
HEADS = ("last", "attention-fusion")
FUSION, UNTRAINED = "attention-fusion", "mean"
SEEDS = range(3)
EPOCHS = 5
FEW = 0.05
FEW_EPOCHS = 20

SHARE = f"{FEW * 100:g} %"
FROZEN_HEADER = (
    "target",
    "trained on the target",
    "frozen, from English",
    "`mean`",
    "frozen - trained",
    "frozen - `mean`",
)
FEW_HEADER = ("target", "head", f"{SHARE} alone", "after English", "difference", "it helps")

INTRODUCTION = f"""\
Span F1 on test (%), mean ± half width of the 95 % interval over {len(SEEDS)} seeds. WikiAnn has
20,000 sentences per language; {EPOCHS} epochs on all of them, {FEW_EPOCHS} on {SHARE}. The paper
has a multilingual BERT and MultiATIS++; if the backbone here is an English one, the targets are
read through what it knows of them, and scores are low for every head. The paper does not say
whether source and target are mixed in Table 3; here the target comes after the source. Dev is
scored once, after the last step, and chooses nothing. Differences are paired over seeds, in points;
three seeds make wide intervals. The paper's Table 4 says that a frozen fusion costs next to
nothing; `mean`, the average of layers, is what a frozen fusion that knows nothing reads. Its Table
3 says that after the source attention fusion is ahead of the last layer. The third row of a target
is that lead, without English and after it."""


def main() -> None:
    """Train what is missing, then write both tables."""
    args = arguments(__doc__, work=True)
    run = runner(RECORDS, args)
    source = source_plan(args.model)
    saved = {(spec.head, spec.seed): save(spec, args) for spec in source}
    frozen_lines, few_lines = [], []
    records: list[Record] = []
    for task in TARGETS:
        target = [replace(spec, task=task) for spec in source]
        fused = [spec for spec in target if spec.head == FUSION]
        own = run(fused)
        frozen = run(
            [replace(s, fusion_from=saved[s.head, s.seed], freeze_fusion=True) for s in fused]
        )
        untrained = run([replace(spec, head=UNTRAINED) for spec in fused])
        differences = [
            interval_text(paired(frozen, other), sign=True) for other in (own, untrained)
        ]
        frozen_lines.append([task, *map(cell, (own, frozen, untrained)), *differences])
        few = [replace(spec, fraction=FEW, epochs=FEW_EPOCHS) for spec in target]
        alone = run(few)
        after = run([replace(spec, init_from=saved[spec.head, spec.seed]) for spec in few])
        few_lines += compare_few(task, alone, after)
        records += [*own, *frozen, *untrained, *alone, *after]
    write(
        NAME,
        [
            f"# Transfer on WikiAnn, {records[0].model}",
            INTRODUCTION,
            "## All of the target: a frozen fusion (Table 4)\n\n"
            + markdown(FROZEN_HEADER, frozen_lines),
            f"## {SHARE} of the target (Table 3)\n\n{markdown(FEW_HEADER, few_lines, words=2)}",
        ],
    )


def source_plan(model: str) -> list[TrainSpec]:
    """Return the runs on English, in the paper's protocol."""
    protocol = get_protocol("attention-fusion")
    base = TrainSpec(
        model=model,
        task=SOURCE,
        head=FUSION,
        decoder=protocol.decoders["tagging"],
        evals=1,
        **{**protocol.options, "epochs": EPOCHS},
    )
    return product(base, {"head": HEADS, "seed": SEEDS})


def save(spec: TrainSpec, args: argparse.Namespace) -> str:
    """Train a run on English if it is missing, and return the folder of its saved head."""
    folder: Path = args.work / NAME / f"{spec.head}-seed{spec.seed}"
    sweep([spec], out=RECORDS, location=Location(cache=args.cache), save=folder, progress=True)
    return str(folder)


def compared(one: Sequence[Record], two: Sequence[Record]) -> list[str]:
    """Return the first's score minus the second's, and whether it is above zero."""
    difference = paired(one, two)
    return [interval_text(difference, sign=True), verdict(difference.low, difference.high)]


def compare_few(task: str, alone: Sequence[Record], after: Sequence[Record]) -> list[list[str]]:
    """Return a line per head, and one for the lead of attention fusion over the last layer."""
    lines = []
    for head in HEADS:
        own, started = of_head(alone, head), of_head(after, head)
        lines.append([task, f"`{head}`", cell(own), cell(started), *compared(started, own)])
    leads = [interval_text(lead(records), sign=True) for records in (alone, after)]
    return [*lines, [task, f"`{FUSION}` - `last`", *leads, "", ""]]


def lead(records: Sequence[Record]) -> Interval:
    """Return the score of attention fusion minus that of the last layer."""
    return paired(of_head(records, FUSION), of_head(records, "last"))


if __name__ == "__main__":
    main()
