"""Few-shot NER on CoNLL-2003: seven heads at 8 and 128 shots (DWAtt paper, figure 3).

Three ways to fit each head: by steps at the papers' learning rates (attention fusion's for the
light heads, save for the mixtures of `p32` and `scalar-mix`, which have their default of 0.2;
DWAtt's for the large ones); by steps at rates that were searched on two other seeds
(``--lr search``); and by default, without any option: light heads solved to the optimum, large ones
by steps at their default rate. Dev chooses checkpoint, rate and strength of L2; test is reported.
Finished runs are skipped, so the script can be stopped and resumed.

    probekit extract MODEL conll --data DATA --split train,dev,test
    python analyses/fewshot_fits.py MODEL --workers 2 [--shots 8]
"""

from collections.abc import Sequence
from dataclasses import replace

from shared import (
    PUBLISHED,
    RESULTS,
    argument_parser,
    cell,
    markdown,
    of_head,
    runner,
    section,
    with_rates,
    write,
)

from probekit import Record, TrainSpec, plot_fewshot, plot_weights, product, save_figure

HEADS = tuple(PUBLISHED)
SHOTS = (8, 128)
SEEDS = range(5)
WAYS = ("published rates", "searched rates", "defaults")


def main() -> None:
    """Train what is missing, then write the tables and the figures."""
    parser = argument_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("--shots", type=int, nargs="+", default=SHOTS)
    args = parser.parse_args()
    run = runner(RESULTS / "fewshot_fits.jsonl", args)
    found: dict[str, list[Record]] = {way: [] for way in WAYS}
    for shots in args.shots:
        base = TrainSpec(model=args.model, task="conll", head="last", shots=shots)
        steps = replace(base, fit="adam", epochs=50, evals=5)
        plans = {
            "defaults": product(base, {"head": HEADS, "seed": SEEDS}),
            "published rates": with_rates(steps, HEADS, {"seed": SEEDS}, PUBLISHED),
            "searched rates": product(steps, {"head": HEADS, "seed": SEEDS, "lr": ["search"]}),
        }
        for way, plan in plans.items():
            found[way] += run(plan)
    tabulate(found)


def tabulate(found: dict[str, list[Record]]) -> None:
    """Write the tables and the figures."""
    model = found["defaults"][0].model
    write(
        "fewshot_fits",
        [
            f"# Few-shot NER on CoNLL-2003, {model}",
            "Test span F1 (%), mean ± half width of the 95 % interval over five seeds.",
            overview(found),
            *(section(way.capitalize(), records) for way, records in found.items()),
        ],
    )
    defaults = found["defaults"]
    save_figure(plot_fewshot(defaults), RESULTS / "fewshot_fits.png")
    many = [record for record in defaults if record.shots == max(r.shots or 0 for r in defaults)]
    save_figure(plot_weights(many), RESULTS / "fewshot_fits_weights.png")


def overview(found: dict[str, list[Record]]) -> str:
    """Return one line per head: test scores at both sizes, fitted in three ways."""
    sizes = sorted({record.shots for record in found["defaults"] if record.shots})
    columns = [(way, shots) for shots in sizes for way in WAYS]
    lines = []
    for head in HEADS:
        own = {way: of_head(records, head) for way, records in found.items()}
        chosen = ([r for r in own[way] if r.shots == shots] for way, shots in columns)
        lines.append([f"`{head}`", *map(with_rate, chosen)])
    return markdown(["head", *(f"{shots} shots, {way}" for way, shots in columns)], lines)


def with_rate(records: Sequence[Record]) -> str:
    """Return the mean test score with its interval, and the learning rate of steps."""
    rate = f" ({records[0].lr:g})" if records and records[0].lr is not None else ""
    return f"{cell(records)}{rate}"


if __name__ == "__main__":
    main()
