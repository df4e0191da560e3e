"""Fine-tuning from a solved head against a random one, with 8 shots (`--start solved`).

CoNLL-2003, 50 epochs; dev chooses the checkpoint, test is reported. Of two rates of the model each
start has the better one, of a trial on another seed. Beside them the solved heads themselves, from
which the first set out. Finished runs are skipped.

    python analyses/solved_start.py MODEL --workers 2      # half an hour of one core
"""

from dataclasses import replace

from finetuned_fewshot import BACKBONE_RATES, EPOCHS, SEEDS, SOLVED
from shared import (
    PUBLISHED,
    RESULTS,
    argument_parser,
    at_best_rates,
    backbone_rates,
    judged,
    runner,
    with_rates,
    write,
)

from probekit import TrainSpec, product

NAME = "solved_start"
SHOTS = 8

INTRODUCTION = f"""\
Test span F1 in percent, {SHOTS} shots, {len(SEEDS)} seeds, {EPOCHS[SHOTS]} epochs. `init` is where
head and decoder were before the model was trained with them: solved, or random (-). The last column
is the difference to the reference with its 95 % interval over seeds and documents together, in bold
what is sure at 5 % after Holm's correction of all rows of the table. Of two rates of the model,
{BACKBONE_RATES[0]:g} and {BACKBONE_RATES[1]:g}, each start has the one that was better on dev with
another seed."""


def main() -> None:
    """Train what is missing, then write the tables."""
    args = argument_parser(__doc__, "model").parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    base = TrainSpec(
        model=args.model, task="conll", head="last", select="dev", decoder="linear", shots=SHOTS
    )
    frozen = run(product(base, {"head": SOLVED, "seed": SEEDS}))
    steps = replace(
        base, fit="adam", evals=2, as_published=True, epochs=EPOCHS[SHOTS], method="full"
    )
    drawn = with_rates(steps, SOLVED, {}, PUBLISHED)
    starts = [*drawn, *(replace(one, start="solved") for one in drawn)]
    tuned = at_best_rates(run, starts, backbone_rates(BACKBONE_RATES), SEEDS)
    write(
        NAME,
        [
            "# Fine-tuning from a solved head",
            INTRODUCTION,
            judged("Against a random start", tuned, "init=none", by=("init",), apart=("head",)),
            judged(
                "Against the solved head itself",
                [*frozen, *(record for record in tuned if record.init is not None)],
                "method=none",
                by=("method",),
                apart=("head",),
            ),
        ],
    )


if __name__ == "__main__":
    main()
