"""Rows and fitter, one factor at a time: do mixtures of layers read more than their average?

Mixtures on raw and on standardised rows, solved and trained by the papers' steps: a 2 x 2 on
CoNLL-2003 with few shots. The papers' rows are the raw ones. Dev chooses checkpoint and strength of
L2; test is reported. Finished runs are skipped; predictions lie beside the records and are not
tracked.

    make analyses MODELS=models DATA=data
    python analyses/rows_and_fitters.py MODEL [MODEL ...] --workers 2
"""

from dataclasses import replace

from shared import (
    PUBLISHED,
    RESULTS,
    SINGLE,
    argument_parser,
    best_single,
    judged,
    runner,
    single_layers,
    with_rates,
    write,
)

from probekit import Record, TrainSpec, product

NAME = "rows_and_fitters"
HEADS = ("mean", "p32", "attention-fusion")
ROWS = ("none", "standardize")
SHOTS = (8, 32, 128)
SEEDS = range(5)
BY = ("shots", "normalize", "fitter")

INTRODUCTION = f"""\
Test span F1 in percent, mean ± half width of the 95 % interval over {len(SEEDS)} draws. The last
column is the difference to the reference, with its 95 % interval over draws and sentences
together, in bold what is sure at 5 % after Holm's correction of all rows of the table. `none` are
the rows as the model makes them, which the papers have; `lbfgs` is solved, `adam` trained as
published: 50 epochs at 2e-3. `{SINGLE}` probes a single layer of those that `p32`
mixes: the one with the best score on dev, which also chooses the strength of L2."""


def main() -> None:
    """Train what is missing, then write the tables."""
    args = argument_parser(__doc__, "models").parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    found: list[Record] = []
    singles: list[Record] = []
    for model in args.models:
        for shots in SHOTS:
            base = TrainSpec(model=model, task="conll", head="last", select="dev", shots=shots)
            every = {"normalize": ROWS, "seed": SEEDS}
            found += run(product(base, {"head": HEADS, **every}))
            singles += best_single(run(single_layers(base, args.cache, SEEDS)))
            steps = replace(base, fit="adam", epochs=50, evals=5, as_published=True)
            found += run(with_rates(replace(steps, decoder="linear"), HEADS, every, PUBLISHED))
    solved_mixtures = [one for one in found if one.fitter == "lbfgs" and one.normalize == "none"]
    write(
        NAME,
        [
            "# Rows and fitter of a mixture",
            INTRODUCTION,
            judged(
                "Against an average of the same rows by the same fitter",
                *([*found, *singles], "mean"),
                by=BY,
                apart=BY[1:],
            ),
            judged(
                "Solved, against the best single layer",
                [*solved_mixtures, *singles],
                SINGLE,
                by=BY[:2],
            ),
            judged(
                "As published, against solved: the same head on the same rows",
                *(found, "fitter=lbfgs"),
                by=BY,
                apart=("head", "normalize"),
            ),
            judged(
                "Raw rows, against standardised ones: the same head by the same fitter",
                *(found, "normalize=standardize"),
                by=BY,
                apart=("head", "fitter"),
            ),
        ],
    )


if __name__ == "__main__":
    main()
