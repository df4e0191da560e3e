"""Overthinking and early exit of two models on four tasks, against what the last depth expects.

Trains the probes of ``depths.py`` with their predictions, converged and, of one seed, as published
(Kaya and Dumitras 2019, with the null that ``probekit overthinking`` describes). Finished runs are
skipped; predictions lie beside the records and are not tracked.

    make analyses MODELS=models DATA=data
    python analyses/overthinking.py MODEL [MODEL ...] --workers 2
"""

from collections.abc import Sequence

from depths import by_steps, every_depth
from shared import RESULTS, argument_parser, markdown, runner, write

from probekit import Record, early_exit, overthinking, plot_exit, plot_overthinking, save_figure
from probekit.results.comparison.resampling import Estimate
from probekit.results.overthinking import EarlyExit, Overthinking
from probekit.results.summaries.interval import LEVEL, holm
from probekit.results.summaries.wording import model_text

NAME = "overthinking"
TASKS = ("glue/rte", "glue/sst2", "conll", "ud/en_ewt")
RULES = ("fixed", "confidence", "patience", "oracle")

INTRODUCTION = """\
Percent with 95 % intervals over sentences. *Destructive*: rows that the last depth has wrong and
some earlier one right, in percent of all rows. *Expected*: what the last depth's own probabilities,
calibrated, give to the classes that the earlier depths name; the excess was known earlier and lost.
*Chosen depth*: the earlier depth that is best on dev, the rows that it repairs, and their excess;
where test has no labels, each half of dev chooses for the other one. Bold is sure at 5 % after
Holm's correction of all rows of the table."""

DEPTHS_SAID = """\
Of the rows that the last depth has wrong, what an earlier depth has right, in percent: that with
the largest excess, and how many of the earlier depths surely exceed what is expected (Holm over the
depths). *One draw* is the last depth's mean probability of the gold class there."""

EXITS = """\
Thresholds are chosen for a loss of at most one point of the metric against the last depth on dev
(or the other half of it); loss and layers are those of the reported split. A rule earns its keep
where it uses fewer layers than one fixed depth at the same loss."""


def main() -> None:
    """Train what is missing, then write the tables and the figures."""
    args = argument_parser(__doc__, "models").parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    converged: list[Record] = []
    published: list[Record] = []
    for task in TASKS:
        for model in args.models:
            plan = every_depth(model, task, args.cache)
            converged += run(plan)
            published += run(by_steps(plan, seeds=[0]))
    parts = ["# Overthinking and early exit", INTRODUCTION]
    kinds = {"Converged": converged, "As published": published}
    found = {title: overthinking(records) for title, records in kinds.items()}
    for title, own in found.items():
        parts += [f"## {title}", shares_table(own)]
    parts += ["## Depth by depth", DEPTHS_SAID]
    for title, own in found.items():
        parts += [f"### {title}", depths_table(own)]
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
    """Return a line per model and task; in bold is what is sure."""
    excess = {n: (one.shares[1].excess, one.chosen.excess) for n, one in enumerate(found)}
    p = holm({(n, kind): pair[kind].p for n, pair in excess.items() for kind in (0, 1)})
    lines = []
    for n, one in enumerate(found):
        share, chosen = one.shares[1], one.chosen
        texts = [_bold(excess[n][kind], p[n, kind]) for kind in (0, 1)]
        lines.append(
            [
                *(model_text(one.model), one.task, share.share.text(100)),
                *(f"{100 * share.expected.value:.1f}", texts[0]),
                *(" and ".join(map(str, chosen.depths)), chosen.repairs.text(100), texts[1]),
            ]
        )
    header = ["model", "task", "destructive", "expected", "excess"]
    return markdown([*header, "chosen depth", "repairs", "excess of these"], lines, words=2)


def _bold(found: Estimate, p: float) -> str:
    text = found.text(100, signed=True)
    return f"**{text}**" if p < LEVEL else text


def depths_table(found: Sequence[Overthinking]) -> str:
    """Return a line per model and task: the earlier depth that knows most."""
    lines = []
    for one in found:
        earlier = one.by_depth.earlier
        best = max(earlier, key=lambda each: each.excess.value)
        sure = sum(each.knows for each in earlier)
        lines.append(
            [
                *(model_text(one.model), one.task, f"{best.depth}", best.right.text(100)),
                *(f"{100 * best.expected.value:.1f}", best.excess.text(100, signed=True)),
                *(f"{100 * one.by_depth.gold.value:.1f}", f"{sure} of {len(earlier)}"),
            ]
        )
    header = ["model", "task", "depth", "right", "expected", "excess", "one draw", "sure depths"]
    return markdown(header, lines, words=2)


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
