"""Nine tasks: what fusion reads beyond an average of layers, and which layers it reads (P-32).

Light heads on every task, fitted in two ways over the same raw rows with the same decoder: solved,
and as published (P-32's comparison as far as frozen features allow: AdamW at 2e-3 with linear
decay, 20 epochs, for all parameters). Beside the solved ones stands the best single layer. Tasks
are ordered by the number of sentences that are fitted, as in P-32's Figure 2. There are five seeds
of what takes steps or draws its sentences, else one. Finished runs are skipped; predictions lie
beside the records and are not tracked.

    make analyses MODELS=models DATA=data
    python analyses/nine_tasks.py MODEL [MODEL ...] --workers 2
"""

from collections.abc import Sequence
from dataclasses import replace

from shared import (
    PUBLISHED,
    RESULTS,
    SINGLE,
    SOLVED,
    argument_parser,
    best_single,
    judged,
    runner,
    single_layers,
    with_rates,
    write,
)
from subjects import SUBJECTS, is_decoder, published_subject, subject

from probekit import Record, plot_weights, product, save_figure

NAME = "nine_tasks"
WEIGHING = ("p32", "attention-fusion")
SEEDS = range(5)
EPOCHS = 20
BY = ("fitter",)

INTRODUCTION = f"""\
Scores in percent, each task's metric: test of CoNLL-2003, WikiAnn, UD and ATIS, whose dev chose
strengths of L2 and checkpoints; dev of the others, which chose nothing: five folds of train chose
strengths of L2, a tenth of train checkpoints. There are {len(SEEDS)} seeds of what takes steps or
draws its sentences, else one. The last column is the difference to the reference with its 95 %
interval, over seeds and sentences together where seeds differ, else over sentences (documents where
the corpus has them), in bold what is sure at 5 % after Holm's correction of all rows of the table.
`{SINGLE}` probes a single layer of those that `p32` mixes: the one with the best score on the data
that choose the strength of L2. All heads read raw rows."""


def main() -> None:
    """Train what is missing, then write the tables and a figure per head."""
    parser = argument_parser(__doc__, "models")
    parser.add_argument("--tasks", nargs="+", default=list(SUBJECTS))
    args = parser.parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    fitted: list[Record] = []
    for kind, models in by_kind(args.models).items():
        solved: list[Record] = []
        published: list[Record] = []
        for model in models:
            for task in args.tasks:
                base = subject(model, task)
                seeds = SEEDS if base.fraction else SEEDS[:1]
                solved += run(product(base, {"head": SOLVED, "seed": seeds}))
                solved += best_single(run(single_layers(base, args.cache, seeds)))
                steps = published_subject(model, task, epochs=EPOCHS)
                published += run(with_rates(steps, SOLVED, {"seed": SEEDS}, PUBLISHED))
        write(
            f"{NAME}_{kind}",
            [
                f"# Nine tasks, {kind}",
                INTRODUCTION,
                judged("Solved, against an average", solved, "mean"),
                judged("Solved, against the best single layer", solved, SINGLE),
                judged("Solved, against the last layer", solved, "last"),
                judged("As published, against an average", published, "mean"),
                judged("As published, against the last layer", published, "last"),
                judged(
                    "As published, against solved: the same head",
                    *([*named_solved(solved), *published], "fitter=solved"),
                    by=BY,
                    apart=("head",),
                ),
            ],
        )
        fitted += solved
    for head in WEIGHING:
        own = [record for record in fitted if record.head == head]
        save_figure(plot_weights(own), RESULTS / f"{NAME}_{head}_weights.png")
        save_figure(plot_weights(own, of="shares"), RESULTS / f"{NAME}_{head}_shares.png")


def named_solved(records: Sequence[Record]) -> list[Record]:
    """Return records of heads under one name of their solver, of which STS-B has two."""
    return [replace(one, fitter="solved") for one in records if one.head != SINGLE]


def by_kind(models: Sequence[str]) -> dict[str, list[str]]:
    """Return encoders and decoders, each a family of tables, without the kind that has none."""
    kinds: dict[str, list[str]] = {}
    for model in models:
        kinds.setdefault("decoders" if is_decoder(model) else "encoders", []).append(model)
    return kinds


if __name__ == "__main__":
    main()
