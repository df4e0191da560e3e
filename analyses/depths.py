"""A probe at every depth of three models on nine tasks: where does each layer know its task?

Converged probes (solved; what chooses the strength of L2 is never what is reported) beside probes
as P-32's comparison trains them (AdamW at 2e-3 with linear decay, 20 epochs, three seeds) on the
same rows. Finished runs are skipped; predictions lie beside the records and are not tracked.

    make analyses MODELS=models DATA=data
    python analyses/depths.py MODEL [MODEL ...] --workers 2 [--tasks TASK ...]
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shared import RESULTS, argument_parser, judged_against, markdown, runner, verdict_cell, write
from subjects import SUBJECTS, subject

from probekit import Location, Record, TrainSpec, open_features, plot_depth, product, save_figure
from probekit.results.comparison import best_depth
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.wording import model_text, numbers_text
from probekit.train.sweeps.specs import depths

NAME = "depths"
SEEDS = range(3)
WAYS = ("converged", "published")

INTRODUCTION = """\
The best depth is chosen on dev; "within noise" are the depths that dev cannot tell from it (over
seeds where there are several, over sentences, Holm's correction over the depths). "Best - last" is
the score of that depth less that of the last one: on test where it has labels; elsewhere on dev,
each half of it with the depth that the other half chose. In points of each task's metric, with the
95 % interval over sentences (and seeds, where there are several); bold is sure after Holm's
correction of all rows of the table at 5 %."""


def main() -> None:
    """Train what is missing, then write the tables and the figures."""
    parser = argument_parser(__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tasks", nargs="+", default=list(SUBJECTS))
    args = parser.parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    found: dict[str, list[Record]] = {way: [] for way in WAYS}
    for task in args.tasks:
        for model in args.models:
            plan = product(subject(model, task), {"depth": all_depths(model, task, args.cache)})
            found["converged"] += run(plan)
            found["published"] += run(published(plan, task))
    parts = [f"## {way.capitalize()}\n\n{depth_table(records)}" for way, records in found.items()]
    write(NAME, ["# Depth by depth", INTRODUCTION, *parts])


def all_depths(model: str, task: str, cache: Path) -> list[int]:
    """Return every depth of a model."""
    splits = open_features(model, task, SUBJECTS[task].label, Location(cache=cache))
    return depths(splits.manifest.n_blocks)


def published(plan: Sequence[TrainSpec], task: str) -> list[TrainSpec]:
    """Return the same probes by steps at a fixed rate, on the same rows."""
    return [
        replace(spec, fit="adam", epochs=20, lr=2e-3, evals=1, select="dev", seed=seed)
        for spec in plan
        for seed in SEEDS
    ]
