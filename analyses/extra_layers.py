"""Extra layers against layer fusion, few-shot: which claims of the DWAtt paper hold (section 6)?

Concat and DWAtt against the deeper model of the same size, on CoNLL-2003 at 8 and 128 shots: as
published (5e-5), and each head at its own best rate, chosen on dev by seeds 0 and 1. Runs of concat
and dwatt come from the records of ``fewshot_conll.py``, which must be there; those of extra-layers
are trained here. Finished runs are skipped.

    probekit extract MODEL conll --data DATA --split train,dev,test
    python analyses/extra_layers.py MODEL --workers 2
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shared import (
    RESULTS,
    arguments,
    best_rate,
    cell,
    interval_text,
    markdown,
    paired,
    runner,
    verdict,
    write,
)

from probekit import Record, TrainSpec, load_records, product

NAME = "extra_layers"
SHOTS = (8, 128)
SEEDS = range(5)
SEARCH_SEEDS = range(2)
PUBLISHED = 5e-5
RATES = (5e-5, 2e-4, 1e-3, 2e-3)
SEARCHED = {8: RATES, 128: RATES[:3]}
"""Rates that extra-layers tries by number of shots; 128 shots take long, so one fewer."""

HEADS = ("concat", "dwatt", "extra-layers")
CLAIMS = (
    (
        "concat",
        "extra-layers",
        8,
        "Concat outperforms R26, most with the fewest shots",
    ),
    ("concat", "extra-layers", 128, "Concat improves on R26 by 3.68 % (100 epochs)"),
    ("dwatt", "extra-layers", 8, "layer fusion outperforms the deeper model"),
    ("dwatt", "extra-layers", 128, "DWAtt improves on R26 by 5.28 % (100 epochs)"),
    ("concat", "dwatt", 8, "at N = 8, only Concat manages to adapt well"),
    ("dwatt", "concat", 128, "DWAtt outperforms Concat on larger data sizes"),
)

INTRODUCTION = """\
Span F1 on test (%), 50 epochs, linear decoder, five seeds. Differences are paired: heads with one
seed see the same sentences; in points with the 95 % interval over seeds. The paper has
RoBERTa-large, two extra layers, and the best of many dev scores; this is a base model with one, and
test."""


def main() -> None:
    """Train what is missing, then write the table of claims."""
    args = arguments(__doc__)
    run = runner(RESULTS / f"{NAME}.jsonl", args)
    base = TrainSpec(model=args.model, task="conll", head="extra-layers", epochs=50, evals=5)
    run(product(base, {"shots": SHOTS, "lr": [PUBLISHED], "seed": SEEDS}))
    for shots, rates in SEARCHED.items():
        few = replace(base, shots=shots)
        searched = run(product(few, {"lr": rates, "seed": SEARCH_SEEDS}))
        run(product(few, {"lr": [best_rate(searched, rates)], "seed": SEEDS}))
    files = [RESULTS / f"{name}.jsonl" for name in ("fewshot_conll", NAME)]
    records = [
        record
        for record in load_records(files)
        if record.decoder == "linear" and record.epochs == base.epochs and record.head in HEADS
    ]
    published = {(h, k): of(records, h, k, PUBLISHED) for h in HEADS for k in SHOTS}
    best = {(h, k): of(records, h, k, own_rate(records, h, k)) for h in HEADS for k in SHOTS}
    parts = [f"# Extra layers against layer fusion, {records[0].model}", INTRODUCTION]
    for title, found in (("Published rate, 5e-5", published), ("Each head's best rate", best)):
        parts.append(f"## {title}\n\n{scores(found)}\n\n{claims(found)}")
    write(NAME, parts)


def of(records: Sequence[Record], head: str, shots: int, rate: float) -> list[Record]:
    """Return the runs of a head at one size and rate."""
    return [
        r for r in records if (r.head, r.shots, r.lr) == (head, shots, rate) and r.seed in SEEDS
    ]


def own_rate(records: Sequence[Record], head: str, shots: int) -> float:
    """Return the rate with the best mean dev score of those that all search seeds tried."""
    tried = [r for r in records if (r.head, r.shots) == (head, shots) and r.seed in SEARCH_SEEDS]
    rates = [rate for rate in RATES if sum(r.lr == rate for r in tried) == len(SEARCH_SEEDS)]
    return best_rate(tried, rates)


def scores(found: Mapping[tuple[str, int], Sequence[Record]]) -> str:
    """Return the test scores: heads as rows, sizes as columns, with the learning rate."""
    lines = [
        [f"`{head}`", *(f"{cell(found[head, k])} ({found[head, k][0].lr:g})" for k in SHOTS)]
        for head in HEADS
    ]
    return markdown(["head", *(f"{shots} shots" for shots in SHOTS)], lines)


def claims(found: Mapping[tuple[str, int], Sequence[Record]]) -> str:
    """Return a line per claim: the difference with its interval, and whether it holds."""
    lines = []
    for better, worse, shots, text in CLAIMS:
        difference = paired(found[better, shots], found[worse, shots])
        shown = interval_text(difference, sign=True)
        lines.append(
            [
                text,
                f"{better} - {worse}, {shots} shots",
                shown,
                verdict(difference.low, difference.high),
            ]
        )
    return markdown(["claim of the paper", "difference", "points", "verdict"], lines, words=2)


if __name__ == "__main__":
    main()
