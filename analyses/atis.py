"""ATIS slots and intents with as many shots as train holds: every head.

K is the largest with K x C <= N, for slots (C types) and for intents (C labels), so nearly all of
train is drawn. 50 epochs, but 10 for the two slowest heads; 5 seeds. Dev chooses the checkpoint and
test is what to read. Finished runs are skipped: the script can be stopped and resumed.

    probekit extract MODEL atis --data DATA --split train,dev,test
    python analyses/atis.py MODEL --workers 2
"""

from dataclasses import replace

from shared import (
    RATES,
    RATES_TEXT,
    RESULTS,
    arguments,
    cell,
    markdown,
    of_head,
    runner,
    section,
    with_rates,
    write,
)

from probekit import Location, TrainSpec, open_features, plot_weights, save_figure
from probekit.train.sampling import count_classes

NAME = "atis"
LABELS = ("slots", "intent")
WEIGHING = ("p32", "scalar-mix", "attention-fusion")
SEEDS = range(5)
EPOCHS = 50
SLOW = {"extra-layers": 10, "depth-lstm:hidden=256": 10}
"""Epochs of the heads that take as long as all others together."""

INTRODUCTION = f"""\
Test scores (%), mean ± half width of the 95 % interval over {len(SEEDS)} seeds. {EPOCHS} epochs;
`extra-layers` and `depth-lstm` have had 10 so far, so they are not to be compared with the others.
Decoders are the defaults: linear for slots, pooler for intents, and the published mlp for
`concat-ffn`.

{RATES_TEXT}"""


def main() -> None:
    """Train what is missing, then write the tables and the figure."""
    args = arguments(__doc__)
    run = runner(RESULTS / f"{NAME}.jsonl", args)
    found = {}
    for label in LABELS:
        shots = largest_shots(args.model, label, Location(cache=args.cache))
        base = TrainSpec(model=args.model, task="atis", label=label, head="last", shots=shots)
        plan = with_rates(base, RATES, SEEDS)
        found[label] = run([replace(spec, epochs=SLOW.get(spec.head, EPOCHS)) for spec in plan])
    names = [f"{label}, {found[label][0].shots} shots" for label in LABELS]
    lines = [
        [named(head), *(cell(of_head(found[label], head)) for label in LABELS)] for head in RATES
    ]
    parts = [f"# ATIS, {found['slots'][0].model}", INTRODUCTION]
    parts.append(markdown(["head", *names], lines))
    parts += [section(name, found[label]) for name, label in zip(names, LABELS, strict=True)]
    write(NAME, parts)
    weighing = [r for label in LABELS for r in found[label] if r.head in WEIGHING]
    save_figure(plot_weights(weighing), RESULTS / f"{NAME}_weights.png")


def named(head: str) -> str:
    """Return a head's name in the table, with its epochs where they are fewer."""
    return f"`{head}`, {SLOW[head]} epochs" if head in SLOW else f"`{head}`"


def largest_shots(model: str, label: str, location: Location) -> int:
    """Return the largest K for which train holds K x C examples."""
    splits = open_features(model, "atis", label, location)
    return splits.n_train // count_classes(splits.label_map.names)


if __name__ == "__main__":
    main()
