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
    mean_differences,
    runner,
    single_layers,
    write,
)

from probekit import ExtractOptions, Record, TrainSpec, extract
from probekit.base.layers import RESID_POST
from probekit.tasks.suites import SUITES, SuiteTask

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
    stored = ExtractOptions(points=POINTS, keep=(str(SUITE.pooling),))
    best: list[Record] = []
    for model in args.models:
        for task in some_tasks(args.data):
            extract(model, task.name, data=task.data, cache=args.cache, options=stored)
            base = TrainSpec(model=model, task=task.name, head="last", pooling=SUITE.pooling)
            for point in POINTS:
                plan = single_layers(replace(base, point=point), args.cache, seeds=[0])
                best += [replace(one, head=point) for one in best_single(run(plan))]
    title = "Best layer of each point, task by task"
    table = mean_differences(best, "point", RESID_POST)
    write(NAME, ["# Points on a suite", INTRODUCTION, table, judged(title, best, RESID_POST)])


def some_tasks(folder: Path) -> list[SuiteTask]:
    """Return the tasks that are asked, of the suite's files in a folder."""
    return SUITE.tasks(folder)[::EVERY][:N_TASKS]


if __name__ == "__main__":
    main()
