"""What fusion gains as data shrinks: STS-B in shares of 1 to 100 % (P-32, Figure 3).

`last`, `mean` and `p32`, solved, with five folds of what is drawn choosing the strength of L2, and
as published (AdamW at 2e-3 with linear decay, 20 epochs); dev is scored once. Five seeds draw the
shares. Whether the gain grows has a table of its own: the gain with each share less the gain with
all of train. Finished runs are skipped.

    make analyses MODELS=models DATA=data
    python analyses/less_data.py MODEL [MODEL ...] --workers 2
"""

from collections.abc import Sequence

from shared import (
    PUBLISHED,
    RESULTS,
    argument_parser,
    converged_plan,
    difference_text,
    judged,
    markdown,
    runner,
    sure_text,
    with_rates,
    write,
)
from subjects import published_subject, subject

from probekit import Record, plot_fraction, save_figure
from probekit.results.comparison.judging import Evidence, difference, family, gather
from probekit.results.comparison.resampling import Bootstrap
from probekit.results.comparison.runs import settings
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.wording import model_text

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


def tables(title: str, records: Sequence[Record]) -> tuple[str, ...]:
    """Return the scores against the last layer, those of mixtures against an average, and growth.

    Args:
        title: of all tables.
        records: of one fitter.
    """
    mixtures = [record for record in records if record.head != "last"]
    return (
        judged(f"{title}, against the last layer", records, "last", by=BY),
        judged(f"{title}, mixtures against an average", mixtures, "mean", by=BY),
        growth(f"{title}, what `p32` gains with less data", records),
    )


def growth(title: str, records: Sequence[Record]) -> str:
    """Return a titled table of what `p32` gains with each share less what it gains with all."""
    contrasts = {}
    for (model,), of_model in grouped(records, ["model"]).items():
        runs = {
            (run.records[0].head, run.records[0].fraction): run
            for run in settings(of_model).values()
        }
        evidence = dict(zip(runs, gather([*runs.values()], "dev", None, Bootstrap()), strict=True))
        for reference in ("last", "mean"):
            gains = {
                share: gain(evidence["p32", share], evidence[reference, share])
                for share in (*SHARES, None)
            }
            for share in SHARES:
                pair = runs["p32", share], runs["p32", None]
                contrast = difference(*pair, gains[share], gains[None], "dev")
                contrasts[model_text(model), f"`{reference}`", f"{share:g}"] = contrast
    judged_contrasts = family([one for one in contrasts.values() if one is not None])
    lines = [
        [*names, difference_text(contrast)]
        for names, contrast in zip(contrasts, judged_contrasts, strict=True)
    ]
    header = ["model", "gain over", "fraction", "less the gain with all"]
    table = markdown(header, lines, words=3)
    return f"## {title}\n\n{table}\n\n{sure_text(judged_contrasts)}"


def gain(evidence: Evidence, reference: Evidence) -> Evidence:
    """Return what is known of a difference by seed; one fit of all of train stands for every seed.

    Args:
        evidence: of `p32`.
        reference: of what it is compared with, with the same share.
    """
    by_seed = {seed: own - reference.predicted[seed] for seed, own in evidence.predicted.items()}
    if len(by_seed) == 1:
        by_seed = dict.fromkeys(SEEDS, *by_seed.values())
    return Evidence({seed: own.score for seed, own in by_seed.items()}, by_seed)


if __name__ == "__main__":
    main()
