"""Fusion of a frozen model beside methods that train in it (attention fusion, Tables 1 and 2).

One small encoder on SST-2 (1,000 sentences), CoNLL-2003 (1,404) and ATIS: the last layer under
fine-tuning and under every method that trains a little of the model, and fusion heads over frozen
rows. Methods have their published rate or five times that, whichever was better in a trial on
another seed. Frozen heads are trained to convergence, at rates that trials on other seeds chose,
and light ones are solved, too. By published steps they are beside the methods in Figure 3 alone.
Every method starts from a random head; `solved_start.py` shows what a solved one does. CoNLL-2003
has no diff-pruning, a run of which takes a quarter of an hour. ATIS (Table 2) has frozen heads by
published steps alone, its intents solved ones, too; its slots have 127 tags, which take hours.
Figure 3 is loss and score over steps and over seconds. Finished runs are skipped.

The plan, of one core: 5 runs of each method on SST-2 and CoNLL-2003, a minute or two a run, of
diff-pruning seven: two hours. RTE and MRPC in place of QQP and QNLI, of long pairs, would take
seven: they are run where they are named. Tables are of the named tasks.

    python analyses/early_and_late.py MODEL --workers 2
    python analyses/early_and_late.py MODEL --tasks glue/rte glue/mrpc --workers 2
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared import (
    PUBLISHED,
    RESULTS,
    SOLVED,
    argument_parser,
    at_best_rates,
    backbone_rates,
    converged_plan,
    judged,
    markdown,
    runner,
    with_rates,
    write,
)
from subjects import published_subject, subject

from probekit import Record, TrainSpec, plot_learning, product, save_figure
from probekit.tuning import METHODS

NAME = "early_and_late"
EARLY = ("full", "adapter", "bitfit", "diff-prune", "prompt", "prefix")
CHEAP = tuple(method for method in EARLY if method != "diff-prune")
LATE = ("last", "scalar-mix", "attention-fusion", "concat")
SEEDS = range(3)
EPOCHS = 3
FROZEN_EPOCHS = 50
FASTER = 5.0
HEAD_RATE = 2e-3
SHOWN = ("last", "scalar-mix", "attention-fusion", "full", "bitfit")
"""Heads and methods of the figures, which are of the first task."""

GOAL = 0.74
"""A dev score of that task which all of them reach, in every seed."""

INTRODUCTION = f"""\
Scores in percent, each task's metric: test where it has labels, else dev. {len(SEEDS)} seeds.
Methods have {EPOCHS} epochs at the better of two rates of the model in a trial on another seed;
frozen heads have {FROZEN_EPOCHS}, at a rate chosen by trials on other seeds. The last
column is the difference to the reference with its 95 % interval over seeds and sentences together,
in bold what is sure at 5 % after Holm's correction of all rows of the table."""


@dataclass(frozen=True)
class Experiment:
    """A task, and what of it is run.

    Attributes:
        options: of its runs by steps.
        methods: that its model is trained by.
        solved: heads that are solved over its frozen rows.
        searched: heads that are trained to convergence over them, at searched rates.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    methods: Sequence[str] = EARLY
    solved: Sequence[str] = SOLVED
    searched: Sequence[str] = LATE


EXPERIMENTS = {
    "glue/sst2": Experiment({"fraction": 0.1, "evals": 6}),
    "conll": Experiment({"evals": EPOCHS}, methods=CHEAP),
    "atis": Experiment(methods=(), searched=()),
    "atis:slots": Experiment({"label": "slots", "pooling": None}, (), solved=(), searched=()),
    "glue/rte": Experiment(),
    "glue/mrpc": Experiment(),
}
RECORDED = ("glue/sst2", "conll", "atis", "atis:slots")
"""Tasks that are run unless others are named."""


def main() -> None:
    """Train what is missing, then write the tables and the figures."""
    parser = argument_parser(__doc__, "model")
    parser.add_argument("--tasks", nargs="+", choices=list(EXPERIMENTS), default=RECORDED)
    args = parser.parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    seeds = {"seed": SEEDS}
    late: list[Record] = []
    frozen: list[Record] = []
    early: list[Record] = []
    converged: list[Record] = []
    for task in args.tasks:
        own = EXPERIMENTS[task]
        name = task.partition(":")[0]
        steps = published_subject(args.model, name, epochs=EPOCHS, **own.options)
        late += run(with_rates(steps, LATE, seeds, PUBLISHED))
        solved = subject(args.model, name, fraction=steps.fraction, label=steps.label)
        converged += run(converged_plan(solved, own.solved, {}))
        searched = replace(solved, fit="adam", lr="search", epochs=FROZEN_EPOCHS)
        if own.searched:
            frozen += run(product(searched, {"head": own.searched, **seeds}))
        live = [replace(steps, method=method, lr=HEAD_RATE) for method in own.methods]
        if live:
            early += at_best_rates(run, live, choices, SEEDS)
    by = ("label", "method", "n_backbone_params")
    first = args.tasks[0]
    drawn = [
        one for one in (*late, *early) if one.task == first and (one.method or one.head) in SHOWN
    ]
    write(
        NAME,
        [
            "# Early and late fusion",
            INTRODUCTION,
            judged(
                "Against attention fusion over frozen rows",
                [*frozen, *early],
                "head=attention-fusion,method=none",
                by=by,
            ),
            judged("Late fusion, solved", converged, "mean", by=("label",)),
            judged("Late fusion, published steps", late, "attention-fusion", by=("label",)),
            f"## Seconds of steps to {GOAL:.0%} on held-out sentences, {first}\n\n"
            + seconds_to_goal(drawn),
        ],
    )
    for along in ("step", "seconds"):
        for of in ("loss", "score"):
            figure = plot_learning(drawn, along, of=of)
            save_figure(figure, RESULTS / f"{NAME}_{of}_by_{along}.png")


def seconds_to_goal(records: Sequence[Record]) -> str:
    """Return a table of the seconds after which `GOAL` was scored first, over seeds."""
    found: dict[str, list[float]] = {}
    for one in records:
        last = one.curve[-1][0]
        steps = (step for step, _, score in one.curve if score >= GOAL)
        seconds = one.train_seconds * next(steps, math.inf) / last
        found.setdefault(f"`{one.head}`, {one.method or 'from the cache'}", []).append(seconds)
    lines = [[name, f"{min(own):.2f}", f"{max(own):.2f}"] for name, own in found.items()]
    return markdown(["head", "fastest seed", "slowest seed"], lines)


def choices(spec: TrainSpec) -> list[TrainSpec]:
    """Return a run at the published rate of its method, and at a faster one."""
    published = METHODS[spec.method].learning_rate
    return backbone_rates((published, float(f"{FASTER * published:.3g}")))(spec)


if __name__ == "__main__":
    main()
