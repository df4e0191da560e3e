"""Nine tasks: what fusion reads beyond an average of layers, and which layers it reads (P-32).

Every head on every task is fitted in two ways on the same rows with the same decoder: converged
(light heads solved; large ones, of the smallest model alone, at rates that trials on other seeds
chose) and as published (P-32's comparison as far as frozen features allow: AdamW at 2e-3 with
linear decay, 20 epochs, for all parameters; DWAtt's 5e-5 for the large heads). Tasks are ordered by
the number of sentences that are fitted, as in P-32's Figure 2. Of what takes steps there are three
seeds, and of draws that large heads have too; else a solver has one. Finished runs are skipped.

    make analyses MODELS=models DATA=data
    python analyses/nine_tasks.py MODEL [MODEL ...] --large MODEL --workers 2
"""

from collections.abc import Sequence

from shared import (
    AVERAGE,
    LARGE,
    PUBLISHED,
    RESULTS,
    SOLVED,
    converged_plan,
    heads_of,
    judged,
    models_and_large,
    runner,
    with_rates,
    write,
)
from subjects import SUBJECTS, is_decoder, published_subject, subject

from probekit import Record, TrainSpec, plot_weights, save_figure

NAME = "nine_tasks"
WEIGHING = ("p32", "attention-fusion", *LARGE)
SEEDS = range(3)
EPOCHS = 20
BY = ("normalize",)

INTRODUCTION = f"""\
Scores in percent, each task's metric: test where it has labels, else dev, which chose nothing: five
folds of train chose the strength of L2, a tenth of train the checkpoint and, with trials on other
seeds, the rate. {len(SEEDS)} seeds of what takes steps. The last column is the difference to a
reference that is fitted in the same way, with its 95 % interval, over seeds and sentences together
where seeds differ, else over sentences, and in bold what is sure after Holm's correction of all
rows of the table at 5 %. The average beside solved mixtures is one of their standardised rows."""


def main() -> None:
    """Train what is missing, then write the tables and a figure per head."""
    args = models_and_large(__doc__)
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    fitted: list[Record] = []
    for kind, models in by_kind(args.models).items():
        converged: list[Record] = []
        published: list[Record] = []
        for task in SUBJECTS:
            for model in models:
                heads = heads_of(model, args)
                converged += run(plan_of(model, task, heads))
                published += run(published_plan(model, task, heads))
        write(
            f"{NAME}_{kind}",
            [
                f"# Nine tasks, {kind}",
                INTRODUCTION,
                judged("Converged or searched, against an average", converged, AVERAGE, by=BY),
                judged("As published, against an average", published, "mean"),
                judged("Converged or searched, against the last layer", converged, "last", by=BY),
                judged("As published, against the last layer", published, "last"),
            ],
        )
        fitted += converged
    for head in WEIGHING:
        own = [record for record in fitted if record.head == head]
        if own:
            save_figure(plot_weights(own), RESULTS / f"{NAME}_{head}_weights.png")
            save_figure(plot_weights(own, of="shares"), RESULTS / f"{NAME}_{head}_shares.png")


def by_kind(models: Sequence[str]) -> dict[str, list[str]]:
    """Return encoders and decoders, each a family of tables, without the kind that has none."""
    kinds: dict[str, list[str]] = {}
    for model in models:
        kinds.setdefault("decoders" if is_decoder(model) else "encoders", []).append(model)
    return kinds


def plan_of(model: str, task: str, heads: Sequence[str]) -> list[TrainSpec]:
    """Return converged runs; a solver has more than one seed where large heads draw as well."""
    base = subject(model, task)
    large = [head for head in heads if head in LARGE]
    light = converged_plan(base, SOLVED, {"seed": SEEDS if large and base.fraction else [0]})
    return [*light, *converged_plan(base, large, {"seed": SEEDS}, epochs=EPOCHS)]


def published_plan(model: str, task: str, heads: Sequence[str]) -> list[TrainSpec]:
    """Return the same heads at published rates, with the decoder and rows of the converged ones."""
    base = published_subject(model, task, epochs=EPOCHS)
    return with_rates(base, heads, {"seed": SEEDS}, PUBLISHED)


if __name__ == "__main__":
    main()
