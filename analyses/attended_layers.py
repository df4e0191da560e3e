"""Which layers attention fusion attends to: by task, and by language (its paper's Figure 2).

The mean attention that each layer gets on dev, by published steps, of nine tasks (the runs of
``nine_tasks.py``, whose records it shares) and of WikiAnn in German and French. Two runs are as far
apart as half the sum of the absolute differences of their layers' weights: the share of attention
that would have to move (total variation). Five seeds, each of all tasks and languages. Finished
runs are skipped.

    make analyses MODELS=models DATA=data
    python analyses/attended_layers.py MODEL --workers 2
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

from nine_tasks import EPOCHS, SEEDS
from nine_tasks import NAME as NINE
from shared import PUBLISHED, RESULTS, argument_parser, interval_text, markdown, runner, write
from subjects import SUBJECTS, published_subject

from probekit import Record, TrainSpec
from probekit.results.summaries.grouping import grouped
from probekit.results.summaries.interval import Interval, interval

NAME = "attended_layers"
HEAD = "attention-fusion"
LANGUAGES = ("wikiann/en", "wikiann/de", "wikiann/fr")
WORDS = ("wikiann/en", "ud/en_ewt", "conll")

INTRODUCTION = f"""\
Percent of attention that differs between two runs of attention fusion (total variation), by
published steps over raw rows. Mean over pairs, with its 95 % interval over {len(SEEDS)} seeds;
tasks, languages and the model are taken as they are. An English model reads German and French
through what it knows of them."""

Weights = Mapping[tuple[str, int], Mapping[int, float]]
"""Mean attention to each layer, of a task and a seed."""


def main() -> None:
    """Train what is missing, then write the tables."""
    args = argument_parser(__doc__, "model").parse_args()
    english = [spec for task in SUBJECTS for spec in plan(args.model, task)]
    others = [
        replace(spec, task=task)
        for task in LANGUAGES[1:]
        for spec in plan(args.model, LANGUAGES[0])
    ]
    records = runner(RESULTS / f"{NINE}.jsonl", args)(english)
    records += runner(RESULTS / f"{NAME}.jsonl", args)(others)
    weights = {(one.task, one.seed): one.weights for one in records}
    title = f"# What attention fusion attends to, {Path(args.model).name}"
    write(NAME, [title, INTRODUCTION, distances(weights), attention(records)])


def plan(model: str, task: str) -> list[TrainSpec]:
    """Return a published run of attention fusion with every seed."""
    base = published_subject(model, task, epochs=EPOCHS, head=HEAD, lr=PUBLISHED[HEAD])
    return [replace(base, seed=seed) for seed in SEEDS]


def distances(weights: Weights) -> str:
    """Return the table of mean distances, and of their differences."""
    kinds = {
        "nine tasks": by_seed(weights, tuple(SUBJECTS)),
        "three tasks of words": by_seed(weights, WORDS),
        "three languages of WikiAnn": by_seed(weights, LANGUAGES),
    }
    *tasks, languages = kinds
    lines = [[name, text(interval(values))] for name, values in kinds.items()]
    lines += [
        [f"{name} less {languages}", text(interval(differences(kinds[name], kinds[languages])))]
        for name in tasks
    ]
    between = [apart(weights[task, a], weights[task, b]) for task, (a, b) in seed_pairs()]
    lines.append(["two seeds of one task or language", f"{100 * sum(between) / len(between):.1f}"])
    return markdown(["between", "percent of attention"], lines)


def by_seed(weights: Weights, tasks: Sequence[str]) -> list[float]:
    """Return the mean distance of two of some tasks, for every seed."""
    pairs = [*combinations(tasks, 2)]
    return [
        sum(apart(weights[a, seed], weights[b, seed]) for a, b in pairs) / len(pairs)
        for seed in SEEDS
    ]


def differences(of: Sequence[float], less: Sequence[float]) -> list[float]:
    """Return the differences of paired values."""
    return [a - b for a, b in zip(of, less, strict=True)]


def seed_pairs() -> Iterable[tuple[str, tuple[int, int]]]:
    """Return every task and language with every two seeds."""
    return product((*SUBJECTS, *LANGUAGES[1:]), combinations(SEEDS, 2))


def apart(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Return the total variation of two distributions over the same layers."""
    return sum(abs(a[layer] - b[layer]) for layer in a) / 2


def attention(records: Sequence[Record]) -> str:
    """Return the table of the mean attention to each layer, over seeds."""
    groups = {task: own for (task,), own in grouped(records, ["task"]).items()}
    layers = sorted(records[0].weights)
    lines = [
        [task, *(f"{100 * interval(one.weights[n] for one in own).mean:.0f}" for n in layers)]
        for task, own in groups.items()
    ]
    return markdown(["percent, layer", *map(str, layers)], lines)


def text(found: Interval) -> str:
    """Return a mean with its interval, in percent."""
    return interval_text(found.scaled(100))


if __name__ == "__main__":
    main()
