"""Few-shot NER on CoNLL-2003 at 8 to 128 shots: do fusion heads read more than a mean of layers?

Light heads (no more than d values) are solved to the optimum. Large heads are trained by steps at
rates that ``--lr search`` finds at 8 and at 128 shots, on seeds that are not reported; between
them the rate goes from one to the other evenly in the logarithms of rate and shots. Beside both
stand the published rates (attention fusion's for light heads, DWAtt's for large ones). Dev chooses
checkpoint, rate and strength of L2; test is reported. Finished runs are skipped; predictions lie
beside the records and are not tracked.

The budget was set before the first run: 40 hours on two cores for both models. What it left out:
`scalar-mix` (fitted, it is `p32` with a factor), `concat-ffn`, `depth-lstm` and `laya`;
`extra-layers` of all but the first model, and its published rates between 8 and 128 shots; more
epochs than DWAtt's 50.

    make analyses MODELS=models DATA=data
    python analyses/fewshot_heads.py MODEL [MODEL ...] --large MODEL [MODEL ...] --workers 2
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from shared import (
    LARGE,
    NEW,
    PUBLISHED,
    RESULTS,
    SOLVED,
    Run,
    converged_plan,
    judged,
    models_and_large,
    of_head,
    runner,
    with_rates,
    write,
)

from probekit import Record, TrainSpec, plot_fewshot, product, save_figure

NAME = "fewshot_heads"
SHOTS = (8, 16, 32, 64, 128)
ENDS = (SHOTS[0], SHOTS[-1])
SEEDS = range(5)
BY = ("shots",)

INTRODUCTION = f"""\
Test span F1 in percent, mean ± half width of the 95 % interval over {len(SEEDS)} seeds. The last
column is the difference to the reference with its 95 % interval over seeds and sentences together,
in bold what is sure at 5 % after Holm's correction of all rows of the table."""


def main() -> None:
    """Train what is missing, then write the tables and the figures."""
    args = models_and_large(__doc__)
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    converged: list[Record] = []
    published: list[Record] = []
    for model in args.models:
        base = TrainSpec(model=model, task="conll", head="last", select="dev")
        converged += run(converged_plan(base, SOLVED, {"shots": SHOTS, "seed": SEEDS}))
        steps = replace(base, fit="adam", epochs=50, evals=5)
        by_paper = replace(steps, as_published=True, decoder="linear")
        fusion = (*LARGE, *[NEW] * (model == args.models[0])) if model in args.large else ()
        for shots in SHOTS:
            large = [head for head in fusion if head != NEW or shots in ENDS]
            own = replace(by_paper, shots=shots)
            published += run(with_rates(own, (*SOLVED, *large), {"seed": SEEDS}, PUBLISHED))
        if fusion:
            converged += searched(run, steps, fusion)
    maps = [record for record in converged if record.head in LARGE]
    beside = {record.model for record in of_head(converged, NEW)}
    new = [r for r in converged if r.model in beside and r.head not in SOLVED]
    write(
        NAME,
        [
            "# Few-shot NER on CoNLL-2003",
            INTRODUCTION,
            judged("Converged or searched, against an average", converged, "mean", by=BY),
            judged("Searched, against a new layer", new, NEW, by=BY),
            judged("Searched, DWAtt against Concat", maps, "concat", by=BY),
            judged("Published rates, against an average", published, "mean", by=BY),
        ],
    )
    save_figure(plot_fewshot(converged), RESULTS / f"{NAME}.png")


def searched(run: Run, steps: TrainSpec, heads: Sequence[str]) -> list[Record]:
    """Return the records of large heads: rates are searched at the ends, and in line between."""
    found: list[Record] = []
    for shots in ENDS:
        plan = product(replace(steps, shots=shots, lr="search"), {"head": heads, "seed": SEEDS})
        found += run(plan)
    rates = {(record.head, record.shots): record.lr for record in found}
    for shots in SHOTS[1:-1]:
        own = {head: between([rates[head, end] for end in ENDS], shots) for head in heads}
        found += run(with_rates(replace(steps, shots=shots), heads, {"seed": SEEDS}, own))
    return found


def between(ends: Sequence[float | None], shots: int) -> float:
    """Return the rate at some shots on the line through both ends, in logarithms, to 3 digits."""
    low, high = (math.log(rate) for rate in ends if rate is not None)
    part = math.log(shots / ENDS[0]) / math.log(ENDS[1] / ENDS[0])
    return float(f"{math.exp(low + part * (high - low)):.3g}")


if __name__ == "__main__":
    main()
