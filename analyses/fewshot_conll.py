"""Few-shot NER on CoNLL-2003: seven heads at 8 and 128 shots (DWAtt paper, figure 3).

Once at the published learning rates, and once with each head at its own best of
{5e-5, 2e-4, 1e-3, 2e-3}: chosen by the mean dev score of seeds 0 and 1, then run with all five
seeds and reported on test. Finished runs are skipped, so the script can be stopped and resumed.

    probekit extract MODEL conll --data DATA --split train,dev,test
    python analyses/fewshot_conll.py MODEL --workers 2
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shared import (
    PUBLISHED,
    RESULTS,
    arguments,
    best_rate,
    cell,
    markdown,
    of_head,
    runner,
    section,
    write,
)

from probekit import Record, TrainSpec, plot_fewshot, plot_weights, product, save_figure

HEADS = tuple(PUBLISHED)
SHOTS = (8, 128)
SEEDS = range(5)
SEARCH_SEEDS = range(2)
RATES = (5e-5, 2e-4, 1e-3, 2e-3)


def main() -> None:
    """Train what is missing, then write both tables and the figures."""
    args = arguments(__doc__)
    run = runner(RESULTS / "fewshot_conll.jsonl", args)
    base = TrainSpec(model=args.model, task="conll", head="last", epochs=50, evals=5)
    rates = {(head, shots): PUBLISHED[head] for head in HEADS for shots in SHOTS}
    published = run(at_rates(base, rates))
    choices = {"head": HEADS, "shots": SHOTS, "seed": SEARCH_SEEDS, "lr": RATES}
    best = run(at_rates(base, best_rates(run(product(base, choices)))))
    tabulate(published, best)


def at_rates(base: TrainSpec, rates: Mapping[tuple[str, int], float]) -> list[TrainSpec]:
    """Return a spec for every head and number of shots, at their rate, and seed."""
    return [
        replace(base, head=head, shots=shots, seed=seed, lr=rate)
        for (head, shots), rate in rates.items()
        for seed in SEEDS
    ]


def best_rates(searched: Sequence[Record]) -> dict[tuple[str, int], float]:
    """Return the rate with the best mean dev score, by head and shots."""
    return {
        (head, shots): best_rate([r for r in of_head(searched, head) if r.shots == shots], RATES)
        for head in HEADS
        for shots in SHOTS
    }


def tabulate(published: Sequence[Record], best: Sequence[Record]) -> None:
    """Write the tables and the figures."""
    write(
        "fewshot_conll",
        [
            f"# Few-shot NER on CoNLL-2003, {best[0].model}",
            "Test span F1 (%), mean ± half width of the 95 % interval over five seeds.",
            overview(published, best),
            section("Published learning rates", published),
            section("Each head at its own best of four rates, chosen on dev", best),
        ],
    )
    save_figure(plot_fewshot(best), RESULTS / "fewshot_conll.png")
    many = [record for record in best if record.shots == max(SHOTS)]
    save_figure(plot_weights(many), RESULTS / "fewshot_conll_weights.png")


def overview(published: Sequence[Record], best: Sequence[Record]) -> str:
    """Return one line per head: test scores at both sizes, at published and at best rates."""
    columns = [(records, shots) for records in (published, best) for shots in SHOTS]
    names = [f"{shots} shots, {rate} rate" for rate in ("published", "best") for shots in SHOTS]
    lines = []
    for head in HEADS:
        cells = [
            with_rate([r for r in of_head(records, head) if r.shots == shots])
            for records, shots in columns
        ]
        lines.append([f"`{head}`", *cells])
    return markdown(["head", *names], lines)


def with_rate(records: Sequence[Record]) -> str:
    """Return the mean test score with its interval, and the learning rate."""
    return f"{cell(records)} ({records[0].lr:g})"


if __name__ == "__main__":
    main()
