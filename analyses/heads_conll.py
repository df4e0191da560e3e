"""NER on CoNLL-2003: every head with a linear decoder and with a CRF, few-shot and in full.

128 shots, 50 epochs, 5 seeds; all of train, 5 epochs, 1 seed. A head's learning rate is the best
of ``RATES``, chosen once by the mean dev score of seeds 0 and 1 (128 shots, linear decoder), so
that test is what to read. Finished runs are skipped: the script can be stopped and resumed.

    probekit extract MODEL conll --data DATA --split train,dev,test
    python analyses/heads_conll.py MODEL --workers 2
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probekit import (
    Location,
    Record,
    TrainSpec,
    plot_weights,
    product,
    save_figure,
    sweep,
)
from probekit.report import caption, summarise, table

RESULTS = Path(__file__).parent / "results"
RECORDS = RESULTS / "heads_conll.jsonl"
SHOTS = 128
SEEDS = range(5)
SEARCH_SEEDS = range(2)
DECODERS = ("linear", "crf")
LIGHT, HEAVY = (2e-3,), (2e-4, 1e-3)
RATES = {
    "last": LIGHT,
    "mean": LIGHT,
    "p32": LIGHT,
    "scalar-mix": LIGHT,
    "attention-fusion": LIGHT,
    "concat": HEAVY,
    "concat-ffn": (*HEAVY, *LIGHT),
    "dwatt": HEAVY,
    "extra-layers": HEAVY,
    "depth-lstm:hidden=256": (1e-3,),
    "laya": HEAVY,
}
"""Rates that are tried. The light heads' own is the best of four in ``fewshot_conll.py``; the LSTM
is narrow, and its rate not searched, because it is the slowest by far."""


def main() -> None:
    """Train what is missing, then write the tables and the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--cache", type=Path, default=Path("cache"))
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    base = TrainSpec(model=args.model, task="conll", head="last", epochs=50, evals=5)

    def run(specs: Sequence[TrainSpec]) -> list[Record]:
        location = Location(cache=args.cache)
        return sweep(specs, out=RECORDS, location=location, workers=args.workers, progress=True)

    few = replace(base, shots=SHOTS)
    searched = run(
        [
            replace(few, head=head, lr=rate, seed=seed, decoder="linear")
            for head, rates in RATES.items()
            if len(rates) > 1
            for rate in rates
            for seed in SEARCH_SEEDS
        ]
    )
    chosen = {head: best_rate(searched, head) for head in RATES}
    own = [replace(few, head=head, lr=rate) for head, rate in chosen.items()]
    shot = run([s for one in own for s in product(one, {"decoder": DECODERS, "seed": SEEDS})])
    full = run([replace(one, shots=None, epochs=5, decoder="linear") for one in own])
    write(shot, full)


def best_rate(records: Sequence[Record], head: str) -> float:
    """Return the learning rate with the best mean dev score; the smallest of equals."""

    def mean(rate: float) -> float:
        found = [r.eval_score for r in records if (r.head, r.lr) == (head.partition(":")[0], rate)]
        return sum(found) / len(found)

    return RATES[head][0] if len(RATES[head]) == 1 else max(RATES[head], key=mean)


def write(shot: Sequence[Record], full: Sequence[Record]) -> None:
    """Write the tables and the figure."""
    parts = [f"# NER on CoNLL-2003, every head, {shot[0].model}"]
    for decoder in DECODERS:
        own = [record for record in shot if record.decoder == decoder]
        parts.append(section(f"{SHOTS} shots, decoder {decoder}", own))
    parts.append(section("All of train, 5 epochs, decoder linear", full))
    text = "\n\n".join(parts)
    (RESULTS / "heads_conll.md").write_text(text + "\n", encoding="utf-8")
    linear = [record for record in shot if record.decoder == "linear"]
    save_figure(plot_weights(linear), RESULTS / "heads_conll_weights.png")
    print(text)


def section(title: str, records: Sequence[Record]) -> str:
    """Return a titled table with its caption."""
    rows = summarise(records)
    return f"## {title}\n\n{table(rows, style='markdown')}\n\n{caption(rows)}"


if __name__ == "__main__":
    main()
