"""Few-shot NER on CoNLL-2003: seven heads at 8 and 128 shots (DWAtt paper, figure 3).

Once at the published learning rates, and once with each head at its own best of
{5e-5, 2e-4, 1e-3, 2e-3}: chosen by the mean dev score of seeds 0 and 1, then run with all five
seeds and reported on test. Finished runs are skipped, so the script can be stopped and resumed.

    probekit extract MODEL conll --data DATA --split train,dev,test
    python analyses/fewshot_conll.py MODEL --workers 2
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probekit import (
    Location,
    Record,
    TrainSpec,
    plot_fewshot,
    plot_weights,
    product,
    save_figure,
    sweep,
)
from probekit.report import caption, summarise, table

RESULTS = Path(__file__).parent / "results"
RECORDS = RESULTS / "fewshot_conll.jsonl"
HEADS = ("last", "mean", "p32", "scalar-mix", "attention-fusion", "concat", "dwatt")
SHOTS = (8, 128)
SEEDS = range(5)
SEARCH_SEEDS = range(2)
RATES = (5e-5, 2e-4, 1e-3, 2e-3)


def main() -> None:
    """Train what is missing, then write both tables and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--cache", type=Path, default=Path("cache"))
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    base = TrainSpec(model=args.model, task="conll", head="last", epochs=50, evals=5)

    def run(specs: Sequence[TrainSpec]) -> list[Record]:
        location = Location(cache=args.cache)
        return sweep(specs, out=RECORDS, location=location, workers=args.workers, progress=True)

    choices = {"head": HEADS, "shots": SHOTS}
    published = run(product(base, {**choices, "seed": SEEDS}))
    searched = run(product(base, {**choices, "seed": SEARCH_SEEDS, "lr": RATES}))
    best = run(
        [
            replace(base, head=head, shots=shots, seed=seed, lr=best_rate(searched, head, shots))
            for head in HEADS
            for shots in SHOTS
            for seed in SEEDS
        ]
    )
    write(published, best)


def best_rate(records: Sequence[Record], head: str, shots: int) -> float:
    """Return the learning rate with the best mean dev score; the smallest of equals."""

    def mean(rate: float) -> float:
        scores = [
            record.eval_score
            for record in records
            if (record.head, record.shots, record.lr) == (head, shots, rate)
        ]
        return sum(scores) / len(scores)

    return max(RATES, key=mean)


def write(published: Sequence[Record], best: Sequence[Record]) -> None:
    """Write the tables and the figures."""
    text = "\n\n".join(
        [
            f"# Few-shot NER on CoNLL-2003, {best[0].model}",
            "Test span F1 (%), mean ± half width of the 95 % interval over five seeds.",
            overview(published, best),
            section("Published learning rates", published),
            section("Each head at its own best of four rates, chosen on dev", best),
        ]
    )
    (RESULTS / "fewshot_conll.md").write_text(text + "\n", encoding="utf-8")
    save_figure(plot_fewshot(best), RESULTS / "fewshot_conll.png")
    many = [record for record in best if record.shots == max(SHOTS)]
    save_figure(plot_weights(many), RESULTS / "fewshot_conll_weights.png")
    print(text)


def overview(published: Sequence[Record], best: Sequence[Record]) -> str:
    """Return one line per head: test scores at both sizes, at published and at best rates."""
    columns = [(records, shots) for records in (published, best) for shots in SHOTS]
    lines = [
        "| head | 8 shots, published rate | 128 shots, published rate "
        "| 8 shots, best rate | 128 shots, best rate |",
        "|---|---|---|---|---|",
    ]
    for head in HEADS:
        cells = [
            cell([r for r in records if (r.head, r.shots) == (head, shots)])
            for records, shots in columns
        ]
        lines.append(f"| `{head}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(records: Sequence[Record]) -> str:
    """Return the mean test score with its interval, and the learning rate."""
    (row,) = summarise(records)
    assert row.test_score is not None, "the test split has labels"
    score = row.test_score.scaled(100)
    return f"{score.mean:.1f} ± {score.half:.1f} ({records[0].lr:g})"


def section(title: str, records: Sequence[Record]) -> str:
    """Return a titled table with its caption."""
    rows = summarise(records)
    return f"## {title}\n\n{table(rows, style='markdown')}\n\n{caption(rows)}"


if __name__ == "__main__":
    main()
