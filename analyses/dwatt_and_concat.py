"""DWAtt against Concat on CoNLL-2003 with 128 shots, four times as long as the papers train them.

With 50 epochs both losses still fell (`fewshot_heads.py`). Here both get 200, at the best of four
rates on five seeds that are not reported. Dev chooses checkpoint and rate; test is reported. The
model is the first of `fewshot_heads.py`. Finished runs are skipped.

The plan, of one core: two hours, most of it for the rates.

    python analyses/dwatt_and_concat.py MODEL
"""

from collections.abc import Sequence
from dataclasses import replace

from shared import RESULTS, Run, argument_parser, judged, runner, write

from probekit import Record, TrainSpec, product
from probekit.train.sweeps.sweeping import FIRST_SEED, selected_score

NAME = "dwatt_and_concat"
HEADS = ("concat", "dwatt")
RATES = (1e-4, 3.16e-4, 1e-3, 3.16e-3)
SEEDS = range(5)

INTRODUCTION = f"""\
Test span F1 in percent with 128 shots and 200 epochs, mean ± half width of the 95 % interval over
{len(SEEDS)} seeds. Each head has the best of the rates {", ".join(f"{rate:g}" for rate in RATES)}
on dev, by the mean of {len(SEEDS)} other seeds. The last column is the difference to Concat with
its 95 % interval over seeds and documents together."""


def main() -> None:
    """Train what is missing, then write the table."""
    args = argument_parser(__doc__, "model").parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    base = TrainSpec(
        model=args.model, task="conll", head="last", select="dev", fit="adam", shots=128,
        epochs=200, evals=10,
    )  # fmt: skip
    records = [one for head in HEADS for one in at_best_rate(run, replace(base, head=head))]
    title = f"DWAtt against Concat, {records[0].model}"
    write(NAME, ["# 200 epochs", INTRODUCTION, judged(title, records, "concat")])


def at_best_rate(run: Run, base: TrainSpec) -> Sequence[Record]:
    """Return the runs of a head at the rate with the best mean score on what selects."""
    others = range(FIRST_SEED, FIRST_SEED + len(SEEDS))
    trials = run(product(replace(base, trial=True), {"lr": RATES, "seed": others}))
    scores = {
        rate: sum(selected_score(one) or 0.0 for one in trials if one.lr == rate) for rate in RATES
    }
    best = max(RATES, key=lambda rate: scores[rate])
    return run(product(replace(base, lr=best), {"seed": SEEDS}))


if __name__ == "__main__":
    main()
