"""ATIS slots and intents with as many shots as train holds: every head.

K is the largest with K x C <= N, for slots (C types) and for intents (C labels), so nearly all of
train is drawn. 50 epochs, 5 seeds. Dev chooses the checkpoint and test is what to read. Finished
runs are skipped: the script can be stopped and resumed.

    probekit extract MODEL atis --data DATA --split train,dev,test
    python analyses/atis.py MODEL --workers 2
"""

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
INTRODUCTION = f"""\
Test scores (%), mean ± half width of the 95 % interval over {len(SEEDS)} seeds; {EPOCHS} epochs.
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
        base = TrainSpec(
            model=args.model, task="atis", label=label, head="last", shots=shots, epochs=EPOCHS
        )
        found[label] = run(with_rates(base, RATES, SEEDS))
    names = [f"{label}, {found[label][0].shots} shots" for label in LABELS]
    lines = [
        [f"`{head}`", *(cell(of_head(found[label], head)) for label in LABELS)] for head in RATES
    ]
    parts = [f"# ATIS, {found['slots'][0].model}", INTRODUCTION]
    parts.append(markdown(["head", *names], lines))
    parts += [section(name, found[label]) for name, label in zip(names, LABELS, strict=True)]
    write(NAME, parts)
    weighing = [r for label in LABELS for r in found[label] if r.head in WEIGHING]
    save_figure(plot_weights(weighing), RESULTS / f"{NAME}_weights.png")


def largest_shots(model: str, label: str, location: Location) -> int:
    """Return the largest K for which train holds K x C examples."""
    splits = open_features(model, "atis", label, location)
    return len(splits.drawable) // count_classes(splits.label_map.names)


if __name__ == "__main__":
    main()
