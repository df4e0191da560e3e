"""Which token head reads texts best: the last token, an average, a maximum, attention or MultiMax.

On every second task of `suite_points.py`, over cached tokens of three layers: a third, two thirds
and all of the way up. The first three are solved. Attention and MultiMax are trained by steps, at
rates that `--lr search` finds on other seeds. All have three seeds, which change no solved score.
Dev chooses layer, strength of L2, rate and checkpoint. Finished runs are skipped.

    python analyses/token_heads.py MODEL [MODEL ...] --data DIR/sae-probes    # MiniLM: an hour
"""

from dataclasses import replace
from pathlib import Path

from shared import RESULTS, argument_parser, best_single, judged, mean_differences, runner, write
from suite_points import some_tasks

from probekit import ExtractOptions, Record, TrainSpec, extract, product
from probekit.backbone import inspect_backbone

NAME = "token_heads"
SOLVED, TRAINED = ("last", "mean", "max"), ("attention", "multimax")
REFERENCE = "last"
"""The last token, which the suite's own probes read."""

EPOCHS = 30
SEEDS = range(3)

INTRODUCTION = f"""\
Test accuracy in percent of probes over the rows that token heads make, each at the layer of three
that is best on dev. Attention and MultiMax are trained for {EPOCHS} epochs, with {len(SEEDS)}
seeds. First mean differences over the tasks, to the last token and to the average of all tokens:
with 95 % intervals over tasks, in bold where they are sure after Holm's correction of the table.
Then that of every task."""


def main() -> None:
    """Extract and train what is missing, then write the tables."""
    parser = argument_parser(__doc__, "models")
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    best: list[Record] = []
    for model in args.models:
        top = inspect_backbone(model).info.n_blocks
        layers = [top // 3, 2 * top // 3, top]
        stored = ExtractOptions(layers=",".join(map(str, layers)), keep=("tokens",))
        for task in some_tasks(args.data)[::2]:
            extract(model, task.name, data=task.data, cache=args.cache, options=stored)
            base = TrainSpec(model=model, task=task.name, head="last")
            steps = replace(base, fit="adam", lr="search", epochs=EPOCHS)
            plan = [
                spec
                for start, heads in ((base, SOLVED), (steps, TRAINED))
                for spec in product(start, {"token_head": heads, "depth": layers, "seed": SEEDS})
            ]
            # each layer has the rate that was found for it
            best += [
                replace(one, head=one.spec["token_head"], lr=None) for one in best_single(run(plan))
            ]
    title = "Best layer of each token head, task by task"
    references = (REFERENCE, "mean")
    tables = [mean_differences(best, "token head", reference) for reference in references]
    write(NAME, ["# Token heads on a suite", INTRODUCTION, *tables, judged(title, best, REFERENCE)])


if __name__ == "__main__":
    main()
