"""What attention and the feed-forward part add, against the residual stream, on 20 tasks of texts.

Every fifth of the 113 binary tasks of sae-probes, read as `probekit suite` reads them, at the three
points of `block_points.py`, which asks the same of nine tasks. Finished runs are skipped.

    python analyses/suite_points.py MODEL [MODEL ...] --data DIR/sae-probes    # MiniLM: 20 minutes
"""

from dataclasses import replace
from pathlib import Path

from block_points import POINTS
from shared import (
    RESULTS,
    argument_parser,
    best_single,
    judged,
    markdown,
    runner,
    signed,
    single_layers,
    write,
)

from probekit import ExtractOptions, Record, TrainSpec, extract
from probekit.base.layers import RESID_POST
from probekit.results.summaries.interval import interval
from probekit.results.summaries.wording import model_text
from probekit.tasks.suites import SUITES

NAME = "suite_points"
SUITE = SUITES["sae-probes"]
EVERY, N_TASKS = 5, 20

INTRODUCTION = f"""\
Test accuracy in percent of solved probes, each at the layer that is best on dev: `{RESID_POST}` of
the residual stream, `attn_out` of what attention adds to it, `mlp_out` of what the feed-forward
part adds. First the mean difference to the residual stream over the tasks, with its 95 % interval
over tasks; then that of every task."""


def main() -> None:
    """Extract and train what is missing, then write the tables."""
    parser = argument_parser(__doc__, "models")
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    tasks = SUITE.tasks(args.data)[::EVERY][:N_TASKS]
    stored = ExtractOptions(points=POINTS, keep=(str(SUITE.pooling),))
    best: list[Record] = []
    for model in args.models:
        for task in tasks:
            extract(model, task.name, data=task.data, cache=args.cache, options=stored)
            base = TrainSpec(model=model, task=task.name, head="last", pooling=SUITE.pooling)
            for point in POINTS:
                plan = single_layers(replace(base, point=point), args.cache, seeds=[0])
                best += [replace(one, head=point) for one in best_single(run(plan))]
    title = "Best layer of each point, task by task"
    write(NAME, ["# Points on a suite", INTRODUCTION, means(best), judged(title, best, RESID_POST)])


def means(best: list[Record]) -> str:
    """Return the mean difference to the residual stream over tasks, of each model and point."""
    scores = {(one.model, one.task, one.head): one.test_score or 0.0 for one in best}
    lines = []
    for model in dict.fromkeys(one.model for one in best):
        tasks = [one.task for one in best if (one.model, one.head) == (model, RESID_POST)]
        for point in POINTS[1:]:
            gaps = [scores[model, t, point] - scores[model, t, RESID_POST] for t in tasks]
            mean = interval(gaps)
            text = signed(mean.mean, mean.low, mean.high)
            lines.append([model_text(model), f"`{point}`", str(len(tasks)), text])
    return markdown(["model", "point", "tasks", f"less `{RESID_POST}`"], lines)


if __name__ == "__main__":
    main()
