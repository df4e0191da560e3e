"""Selectivity and code length of every head: part of speech on CoNLL-2003 with 8 shots.

A probe that learns random labels as well as real ones says little of the features: control labels
are random but the same for each word type (Hewitt & Liang 2019); selectivity is the accuracy on
real labels minus that on control labels. The online code (Voita & Titov 2020) is what it costs to
send the train labels. C = 45 tags, so 8 shots are 360 sentences; 3 seeds. Light heads are solved,
real and control labels alike; the rates of the large ones (30 epochs) are those that trials on
other seeds chose with real labels. Beside them every head as published: as many epochs at its
paper's rate. Finished runs are skipped. A randomly initialised backbone is
run as well if the cache has one.

    probekit extract MODEL conll --data DATA --split train,dev,test
    (probekit extract MODEL conll --data DATA --split train,dev,test --random-init 0)
    python analyses/selectivity.py MODEL --workers 2
"""

from collections.abc import Sequence
from dataclasses import replace

from shared import (
    LARGE,
    PUBLISHED,
    RESULTS,
    SOLVED,
    argument_parser,
    interval_text,
    markdown,
    of_head,
    runner,
    with_rates,
    write,
)

from probekit import Location, Record, TrainSpec, product
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.interval import interval
from probekit.train.baselines import run_baselines
from probekit.train.baselines.held_against import Baselines

NAME = "selectivity"
SHOTS = 8
EPOCHS = 30
SEEDS = range(3)
COLUMNS = {
    "accuracy": 100.0,
    "control/accuracy": 100.0,
    "selectivity": 100.0,
    "bits per label": 1.0,
    "compression": 1.0,
}
"""Scores, and the factor that they are shown with."""

INTRODUCTION = f"""\
Accuracy on test in percent with real and with control labels, their difference in points, the
length of the online code of the train labels in bits per label, and how many times as long a
uniform code is. Mean ± half width of the 95 % interval over {len(SEEDS)} seeds."""


def main() -> None:
    """Train what is missing, then write the table."""
    args = argument_parser(__doc__, "model").parse_args()
    base = TrainSpec(model=args.model, task="conll", label="pos", head="last", shots=SHOTS)
    steps = replace(base, fit="adam", epochs=EPOCHS)
    searched = runner(RESULTS / f"{NAME}.jsonl", args)(
        product(replace(steps, lr="search"), {"head": LARGE, "seed": SEEDS})
    )
    large = [replace(steps, head=one.head, lr=one.lr, seed=one.seed) for one in searched]
    converged = [*product(base, {"head": SOLVED, "seed": SEEDS}), *large]
    by_paper = replace(steps, as_published=True, decoder="linear")
    published = with_rates(by_paper, (*SOLVED, *LARGE), {"seed": SEEDS}, PUBLISHED)
    title = f"# Selectivity on CoNLL-2003 part of speech, {SHOTS} shots, {searched[0].model}"
    found = {
        name: run_baselines(
            plan,
            out=RESULTS / f"{NAME}.jsonl",
            location=Location(cache=args.cache),
            workers=args.workers,
            device="cpu",
            progress=True,
        )
        for name, plan in {"Converged or searched": converged, "As published": published}.items()
    }
    tables = [f"## {name}\n\n{table(one)}" for name, one in found.items()]
    notes = dict.fromkeys(note for one in found.values() for note in one.notes)
    write(NAME, [title, INTRODUCTION, *tables, *notes])


def table(found: Baselines) -> str:
    """Return a line per head, and one per baseline."""
    lines = [line(head, of_head(found.heads, head)) for head in (*SOLVED, *LARGE)]
    lines += [
        line(f"{head} ({model})", [with_accuracy(record) for record in records])
        for (model, head), records in grouped(found.random, ["model", "head"]).items()
    ]
    lines += [
        line(head, [with_accuracy(record) for record in records])
        for (head,), records in grouped(found.guesses, ["head"]).items()
    ]
    return markdown(["head", *COLUMNS], lines)


def line(name: str, records: Sequence[Record]) -> list[str]:
    """Return the line of a head: a cell per column, a dash for what it has not."""
    return [f"`{name}`", *(score(records, column) for column in COLUMNS)]


def score(records: Sequence[Record], column: str) -> str:
    """Return the mean of a score over seeds with its interval."""
    if any(column not in record.scores for record in records):
        return "-"
    found = interval(record.scores[column] for record in records)
    return interval_text(found.scaled(COLUMNS[column]), decimals=1 if COLUMNS[column] > 1 else 2)


def with_accuracy(record: Record) -> Record:
    """Return a baseline's record with its score on test under the name that heads have it."""
    return replace(record, scores={"accuracy": record.scores["test/accuracy"]})


if __name__ == "__main__":
    main()
