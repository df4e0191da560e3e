"""A probe at every depth of three models on nine tasks: where does each layer know its task?

Converged probes (solved; what chooses the strength of L2 is never what is reported) beside probes
as P-32's comparison trains them (AdamW at 2e-3 with linear decay, 20 epochs, three seeds) on the
same rows. Finished runs are skipped; predictions lie beside the records and are not tracked.

    make analyses MODELS=models DATA=data
    python analyses/depths.py MODEL [MODEL ...] --workers 2
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from shared import RESULTS, argument_parser, markdown, runner, write
from subjects import SUBJECTS, subject

from probekit import Location, Record, TrainSpec, open_features, plot_depth, product, save_figure
from probekit.results.comparison import best_depth
from probekit.results.comparison.resampling import Bootstrap, Estimate
from probekit.results.overthinking import depth_curves
from probekit.results.overthinking.depth_predictions import read_reported
from probekit.results.overthinking.measure import best_place, choosers
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.interval import LEVEL, holm
from probekit.results.summaries.wording import model_text, numbers_text
from probekit.train.sweeps.specs import depths

NAME = "depths"
SEEDS = range(3)
HEADER = ("task", "model", "best on dev", "within noise", "last", "best earlier - last")

INTRODUCTION = """\
"Within noise" are the depths that dev cannot tell from the best one (over seeds where there are
several, and over sentences, Holm's correction over the depths); "last" is the number of the last
one, in bold where it is not among them. "Best earlier - last" is the share of rows that the best
earlier depth has right less that of the last, in points: the depth is chosen on dev and reported on
test, or, without labelled test, chosen on each half of dev for the other; 95 % interval over
sentences, in bold what is sure at 5 % after Holm's correction of all rows of the table."""


def main() -> None:
    """Train what is missing, then write the tables and the figures."""
    parser = argument_parser(__doc__, "models")
    parser.add_argument("--tasks", nargs="+", default=list(SUBJECTS))
    args = parser.parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    converged: list[Record] = []
    published: list[Record] = []
    for task in args.tasks:
        for model in args.models:
            plan = every_depth(model, task, args.cache)
            converged += run(plan)
            published += run(by_steps(plan))
    parts = [
        f"## {title}\n\n{table(records)}"
        for title, records in {"Converged": converged, "As published": published}.items()
    ]
    write(NAME, ["# Depth by depth", INTRODUCTION, *parts])
    for (model,), records in grouped(converged, ["model"]).items():
        figure = plot_depth(records, overlay=["task"], relative=False)
        save_figure(figure, RESULTS / f"{NAME}_{Path(model).stem.lower()}.png")


def every_depth(model: str, task: str, cache: Path) -> list[TrainSpec]:
    """Return a probe at every depth of a model."""
    splits = open_features(model, task, SUBJECTS[task].label, Location(cache=cache))
    return product(subject(model, task), {"depth": depths(splits.manifest.n_blocks)})


def by_steps(plan: Sequence[TrainSpec], seeds: Sequence[int] = SEEDS) -> list[TrainSpec]:
    """Return the same probes by steps at a fixed rate, on the same rows."""
    steps = {"fit": "adam", "epochs": 20, "lr": 2e-3, "evals": 1}
    return [replace(spec, **steps, seed=seed) for spec in plan for seed in seeds]


def table(records: Sequence[Record]) -> str:
    """Return a line per task and model."""
    groups = grouped(records, ["task", "model"])
    gains = {key: gain(own) for key, own in groups.items() if own[0].metric != "spearman"}
    p = holm({key: found.p for key, (_, found) in gains.items()})
    lines = []
    for (task, model), own in groups.items():
        best = best_depth(own)
        last = f"{best.among[-1]}" if best.among[-1] in best.within else f"**{best.among[-1]}**"
        text = "-"
        if (task, model) in gains:
            mean, found = gains[task, model]
            text = f"{mean:+.1f} ({found.low * 100:+.1f} to {found.high * 100:+.1f})"
            text = f"**{text}**" if p[task, model] < LEVEL else text
        within = numbers_text(best.within, best.among)
        lines.append([task, model_text(model), f"{best.best}", within, last, text])
    return markdown(HEADER, lines, words=2)


def gain(records: Sequence[Record]) -> tuple[float, Estimate]:
    """Return what the best earlier depth has right more than the last, in points, with its test."""
    (curve,) = depth_curves(records)
    reported, dev = read_reported(curve, None)
    n = reported.n_sentences
    places = np.empty(n, np.int64)
    for one in choosers(reported, dev, seed=0):
        places[one.judged] = best_place(one.on, one.choosing)
    right = reported.right.mean(0)
    owners = np.repeat(np.arange(n), reported.lengths)
    more = right[places[owners], np.arange(len(owners))] - right[-1]
    sums = np.bincount(owners, more, minlength=n)
    (found,) = Bootstrap().estimates(
        reported.groups, lambda counts: ((counts @ sums) / (counts @ reported.lengths))[:, None]
    )
    return 100 * sums.sum() / len(owners), found


if __name__ == "__main__":
    main()
