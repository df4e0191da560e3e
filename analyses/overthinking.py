"""Overthinking and early exit of two models on four tasks, against what chance gives.

Reads the probes of ``depths.py``, converged and, of one seed, as published, and fits them again on
bootstrap resamples (Kaya and Dumitras 2019, with the null that ``probekit overthinking``
describes). Finished runs are skipped;
predictions lie beside the records and are not tracked.

    make analyses MODELS=models DATA=data
    python analyses/overthinking.py MODEL [MODEL ...] --workers 2
"""

from collections.abc import Sequence
from functools import partial

from depths import NAME as DEPTHS
from depths import by_steps, every_depth
from shared import RESULTS, argument_parser, markdown, write

from probekit import (
    Location,
    Record,
    early_exit,
    overthinking,
    plot_exit,
    plot_overthinking,
    save_figure,
    sweep_depths,
)
from probekit.results.comparison.families import LEVEL, holm
from probekit.results.overthinking import EarlyExit, Overthinking
from probekit.results.summaries.wording import model_text

NAME = "overthinking"
TASKS = ("glue/rte", "glue/sst2", "conll", "ud/en_ewt")
RULES = ("fixed", "confidence", "entropy", "patience", "oracle")

INTRODUCTION = """\
Shares of rows in percent with 95 % intervals over sentences. Excess: by the depths' refits on
bootstrap resamples less as many refits of the last depth on the same ones (chance), and less the
same refits' predictions of another row (guessing). Only what exceeds both is known earlier and
lost: in bold where it is sure at 5 % after Holm's correction of all rows of the table. Without
labelled test, each half of dev is judged by what the other half chose."""

EXITS = """\
Thresholds are chosen for a loss of at most one point of the metric against the last depth on dev
(or the other half of it); loss and layers are those of the reported split. A rule earns its keep
where it uses fewer layers than one fixed depth at the same loss."""


def main() -> None:
    """Train what is missing, then write both tables and the figures."""
    args = argument_parser(__doc__, "models").parse_args()
    converged: list[Record] = []
    published: list[Record] = []
    train = partial(
        sweep_depths,
        out=RESULTS / f"{DEPTHS}.jsonl",
        location=Location(cache=args.cache),
        workers=args.workers,
        progress=True,
    )
    for task in TASKS:
        for model in args.models:
            plan = every_depth(model, task, args.cache)
            converged += train(plan)
            published += train(by_steps(plan, seeds=[0]))
    parts = ["# Overthinking and early exit", INTRODUCTION]
    kinds = {"Converged": converged, "As published": published}
    for title, records in kinds.items():
        parts += [f"## {title}", shares_table(overthinking(records))]
    parts += ["## Early exit", EXITS]
    for title, records in kinds.items():
        parts += [f"### {title}", exit_table(early_exit(records))]
    write(NAME, parts)
    for task in TASKS:
        own = [record for record in converged if record.task == task]
        stem = task.rpartition("/")[2]
        save_figure(plot_overthinking(own), RESULTS / f"{NAME}_{stem}.png")
        save_figure(plot_exit(own), RESULTS / f"{NAME}_{stem}_exit.png")


def shares_table(found: Sequence[Overthinking]) -> str:
    """Return a line per model, task and kind; bold is what is sure to be lost, or known earlier."""
    shares = {(one.model, one.task, share.name): share for one in found for share in one.shares[:3]}
    p = holm({key: max(one.excess.p, one.beyond_guessing.p) for key, one in shares.items()})
    lines = []
    for (model, task, name), share in shares.items():
        both = share.excess, share.beyond_guessing
        texts = [one.text(100, signed=True) for one in both]
        if p[model, task, name] < LEVEL and min(one.value for one in both) > 0:
            texts = [f"**{text}**" for text in texts]
        lines.append([model_text(model), task, name, share.share.text(100), *texts])
    header = ["model", "task", "kind", "share", "excess over chance", "excess over guessing"]
    return markdown(header, lines, words=3)


def exit_table(found: Sequence[EarlyExit]) -> str:
    """Return a line per model, task and rule."""
    lines = []
    for one in found:
        for point in one.points:
            if point.rule in RULES:
                loss = point.loss.text(100, signed=True)
                lines.append(
                    [model_text(one.model), one.task, point.rule, loss, point.layers.text()]
                )
    return markdown(["model", "task", "rule", "loss", "mean layers"], lines, words=3)


if __name__ == "__main__":
    main()
