"""What a CRF adds to each head, CoNLL-2003 at 8 and 32 shots: solved and searched, and published.

Converged: the linear decoder and the chain are both solved on light heads; on the large ones the
rate is searched for each decoder, transitions at their default of 0.1. Published: AdamW at one rate
for all parameters, transitions among them, which leaves these near their start. Dev chooses
strength, checkpoint and rate; test is reported; five seeds. Runs with a linear decoder are those of
``fewshot_heads.py``, whose records it shares. Finished runs are skipped.

    make analyses MODELS=models DATA=data
    python analyses/crf.py MODEL [MODEL ...] --large MODEL --workers 2
"""

from dataclasses import replace

from fewshot_heads import NAME as FEWSHOT
from shared import (
    PUBLISHED,
    RESULTS,
    converged_plan,
    heads_of,
    judged,
    models_and_large,
    runner,
    with_rates,
    write,
)

from probekit import Record, TrainSpec

NAME = "crf"
DECODERS = ("linear", "crf")
SHOTS = (8, 32)
SEEDS = range(5)
BY = ("shots", "normalize", "decoder")

INTRODUCTION = f"""\
Test span F1 in percent, {len(SEEDS)} seeds. The last column is what the CRF adds to the linear
decoder of the same head, with its 95 % interval over seeds and sentences together, and in bold what
is sure after Holm's correction of all rows of the table at 5 %."""


def main() -> None:
    """Train what is missing, then write the tables."""
    args = models_and_large(__doc__)
    run = runner(RESULTS / f"{FEWSHOT}.jsonl", args, predictions=True)
    converged: list[Record] = []
    published: list[Record] = []
    both = {"decoder": DECODERS, "seed": SEEDS}
    for model in args.models:
        heads = heads_of(model, args)
        for shots in SHOTS:
            base = TrainSpec(model=model, task="conll", head="last", shots=shots, select="dev")
            converged += run(converged_plan(base, heads, both, epochs=50, evals=5))
            steps = replace(base, fit="adam", epochs=50, evals=5, as_published=True)
            published += run(with_rates(steps, heads, both, PUBLISHED))
    write(
        NAME,
        [
            "# What a CRF adds, CoNLL-2003",
            INTRODUCTION,
            judged("Converged or searched", converged, "decoder=linear", by=BY),
            judged("As published", published, "decoder=linear", by=BY),
        ],
    )


if __name__ == "__main__":
    main()
