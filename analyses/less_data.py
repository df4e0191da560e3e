"""What fusion gains as data shrinks: STS-B in shares of 1 to 100 % (P-32, Figure 3).

`last`, `mean` and `p32`, solved, with five folds of what is drawn choosing the strength of L2, and
as published (AdamW at 2e-3 with linear decay, 20 epochs); dev is scored once. Five seeds draw the
shares. Finished runs are skipped.

    make analyses MODELS=models DATA=data
    python analyses/less_data.py MODEL [MODEL ...] --workers 2
"""

from collections.abc import Sequence

from shared import (
    PUBLISHED,
    RESULTS,
    argument_parser,
    converged_plan,
    judged,
    runner,
    with_rates,
    write,
)
from subjects import published_subject, subject

from probekit import Record, plot_fraction, save_figure

NAME = "less_data"
TASK = "glue/stsb"
HEADS = ("last", "mean", "p32")
SHARES = (0.01, 0.05, 0.2, 0.4, 0.6, 0.8)
SEEDS = range(5)
EPOCHS = 20
BY = ("fraction",)

INTRODUCTION = f"""\
Spearman correlation on dev, times 100, {len(SEEDS)} seeds (one where all of train is solved). The
last column is the difference to the reference with its 95 % interval, in bold what is sure after
Holm's correction of all rows of the table at 5 %."""


def main() -> None:
    """Train what is missing, then write the table and the figure."""
    args = argument_parser(__doc__, "models").parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    found: list[Record] = []
    published: list[Record] = []
    for model in args.models:
        base = subject(model, TASK)
        found += run(converged_plan(base, HEADS, {"fraction": SHARES, "seed": SEEDS}))
        found += run(converged_plan(base, HEADS, {}))
        drawn = {"fraction": (*SHARES, None), "seed": SEEDS}
        steps = published_subject(model, TASK, epochs=EPOCHS)
        published += run(with_rates(steps, HEADS, drawn, PUBLISHED))
    write(
        NAME,
        [
            "# STS-B with less data",
            INTRODUCTION,
            *tables("Solved", found),
            *tables("As published", published),
        ],
    )
    save_figure(plot_fraction(found), RESULTS / f"{NAME}.png")


def tables(title: str, records: Sequence[Record]) -> tuple[str, str]:
    """Return the scores against the last layer, and those of mixtures against an average."""
    mixtures = [record for record in records if record.head != "last"]
    return (
        judged(f"{title}, against the last layer", records, "last", by=BY),
        judged(f"{title}, mixtures against an average", mixtures, "mean", by=BY),
    )


if __name__ == "__main__":
    main()
