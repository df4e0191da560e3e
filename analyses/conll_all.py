"""CoNLL-2003 with all of train: what do light heads read beyond an average of layers?

The end of the few-shot curves of ``fewshot_heads.py``: 14,041 sentences. Light heads are solved,
one seed (nothing is drawn), and trained as published (AdamW at 2e-3 with linear decay, 20 epochs),
three seeds. Dev chooses the strength of L2 and the checkpoint; test is reported. Large heads are
left out: a search of their rates takes hours a seed. Finished runs are skipped.

    make analyses MODELS=models DATA=data
    python analyses/conll_all.py MODEL [MODEL ...] --workers 2
"""

from shared import (
    PUBLISHED,
    RESULTS,
    SOLVED,
    argument_parser,
    converged_plan,
    judged,
    runner,
    with_rates,
    write,
)
from subjects import published_subject, subject

from probekit import Record

NAME = "conll_all"
TASK = "conll"
SEEDS = range(3)
EPOCHS = 20

INTRODUCTION = f"""\
Test span F1 in percent; {len(SEEDS)} seeds of what takes steps. The last column is the difference
to the reference with its 95 % interval, over seeds and sentences together where seeds differ, else
over sentences, and in bold what is sure at 5 % after Holm's correction of all rows of the table."""


def main() -> None:
    """Train what is missing, then write the tables."""
    args = argument_parser(__doc__, "models").parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    converged: list[Record] = []
    published: list[Record] = []
    every = {"fraction": None, "select": "dev"}
    for model in args.models:
        converged += run(converged_plan(subject(model, TASK, **every), SOLVED, {}))
        steps = published_subject(model, TASK, epochs=EPOCHS, evals=5, **every)
        published += run(with_rates(steps, SOLVED, {"seed": SEEDS}, PUBLISHED))
    write(
        NAME,
        [
            "# CoNLL-2003 with all of train",
            INTRODUCTION,
            judged("Solved, against an average", converged, "mean"),
            judged("As published, against an average", published, "mean"),
        ],
    )


if __name__ == "__main__":
    main()
