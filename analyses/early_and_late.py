"""Fusion of a frozen model beside methods that train in it (attention fusion, Tables 1 and 2).

One small encoder on SST-2, CoNLL-2003, RTE, MRPC and ATIS: the last layer under fine-tuning and
under every method that trains a little of the model, and fusion heads over frozen rows. Methods
have their published rates and three times these, of which dev chooses; frozen heads are solved, or
searched, and, as published, trained by the same steps as the methods. Loss and score over steps
and over seconds (Figure 3) are of the same runs. Finished runs are skipped.

The plan, of one core: 6 methods, 2 rates, 3 seeds on SST-2 (2,000 sentences, 2 minutes a run),
CoNLL-2003 (1,400, 3), RTE (2,490, 6), MRPC (3,668, 7), ATIS intents and slots (4,478, 3 each):
15 hours; frozen heads half an hour.

    python analyses/early_and_late.py MODEL --workers 2
"""

from collections.abc import Iterator
from dataclasses import replace

from shared import (
    AVERAGE,
    PUBLISHED,
    RESULTS,
    arguments,
    converged_plan,
    judged,
    runner,
    with_rates,
    write,
)
from subjects import subject

from probekit import Record, TrainSpec, plot_learning, save_figure
from probekit.results.summaries.best_options import best_options
from probekit.tuning import METHODS

NAME = "early_and_late"
EARLY = ("full", "adapter", "bitfit", "diff-prune", "prompt", "prefix")
LATE = ("last", "scalar-mix", "attention-fusion", "concat")
SEEDS = range(3)
EPOCHS = 3
FASTER = 3.0
HEAD_RATE = 2e-3
SHOWN = ("glue/sst2",)

INTRODUCTION = f"""\
Scores in percent, each task's metric: test where it has labels, else dev. {EPOCHS} epochs,
{len(SEEDS)} seeds; the better of two rates on dev. The last column is the difference to the
reference with its 95 % interval over seeds and sentences together, in bold what is sure at 5 %
after Holm's correction of all rows of the table."""


def subjects(model: str) -> Iterator[TrainSpec]:
    """Yield what is trained on, as a frozen run has it."""
    yield subject(model, "glue/sst2", fraction=0.2)
    yield subject(model, "conll")
    yield subject(model, "glue/rte")
    yield subject(model, "glue/mrpc")
    yield subject(model, "atis")
    yield subject(model, "atis", label="slots")


def main() -> None:
    """Train what is missing, then write the tables and the figures."""
    args = arguments(__doc__)
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    seeds = {"seed": SEEDS}
    late: list[Record] = []
    early: list[Record] = []
    converged: list[Record] = []
    for base in subjects(args.model):
        steps = replace(base, fit="adam", epochs=EPOCHS, as_published=True, decoder="linear")
        late += run(with_rates(steps, LATE, seeds, PUBLISHED))
        converged += run(converged_plan(base, LATE, seeds, epochs=20))
        for method in EARLY:
            published = METHODS[method].learning_rate
            rates = [(("backbone", rate),) for rate in (published, FASTER * published)]
            live = {**seeds, "rates": rates}
            own = replace(steps, method=method)
            early += run(with_rates(own, ["last"], live, {"last": HEAD_RATE}))
    best = best_options(early).records
    by = ("method", "n_backbone_params")
    write(
        NAME,
        [
            "# Early and late fusion",
            INTRODUCTION,
            judged(
                "As published, against attention fusion",
                [*late, *best],
                "head=attention-fusion,method=none",
                by=by,
            ),
            judged("Late fusion, converged or searched", converged, AVERAGE),
        ],
    )
    shown = [one for one in (*late, *best) if one.task in SHOWN]
    for along in ("step", "seconds"):
        for of in ("loss", "score"):
            figure = plot_learning(shown, along, of=of)
            save_figure(figure, RESULTS / f"{NAME}_{of}_by_{along}.png")


if __name__ == "__main__":
    main()
