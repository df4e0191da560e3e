"""In which order layers read parts of speech, dependencies and entities: edge probing.

Tenney et al. 2019 (BERT rediscovers the NLP pipeline), section 3.2: a mixture of the layers up to
each depth is scored, and the expected layer of a task is the mean of the depths, each weighted by
what it adds (equation 2). Part-of-speech labels belong to words, dependencies to pairs (a word and
its head), entities to spans. Probes are fitted on a tenth of train's sentences. Coreference is left
out: no corpus was available.

    probekit extract MODEL ud/en_ewt --data DIR     # and conll
    python analyses/edge_order.py MODEL MODEL       # 25 minutes of one core for the smaller one
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from shared import RESULTS, argument_parser, markdown, runner, write

from probekit import Location, Record, TrainSpec, open_features, product
from probekit.results.comparison.resampling import Bootstrap, Estimate, Groups, estimate
from probekit.results.overthinking.depth_predictions import depth_curves, read_depths
from probekit.results.summaries.interval import holm
from probekit.train.sweeps.specs import depths

NAME = "edge_order"

TASKS = {
    "parts of speech": ("ud/en_ewt", "upos"),
    "dependencies": ("ud/en_ewt", "arcs:deprel"),
    "entities": ("conll", "spans:ner"),
}
FRACTION = 0.1
SAMPLES = 2_000

INTRODUCTION = """\
Edge probing: a mixture of the layers up to each depth (`scalar-mix`), solved, accuracy on test in
percent. The expected layer is the mean of the depths, each weighted by what it adds (Tenney et al.
2019, equation 2). In brackets: 95 % bootstrap intervals over documents; \\*: not 0 at 5 %, Holm
over the differences of a model. Entities come from another corpus than the other two tasks."""

Scores = Float64[np.ndarray, "samples depths"]


def expected_layer(scores: Scores) -> Float64[np.ndarray, " samples"]:
    """Return the expected layer of each sample: of what depths 1 to L add to depth 0."""
    added = np.diff(scores, axis=1)
    layers = np.arange(1, scores.shape[1])
    return np.asarray((added * layers).sum(1) / added.sum(1))


def sampled(records: Sequence[Record], seed: int) -> tuple[Scores, Scores, Groups]:
    """Return the scores of all depths on test, on samples of its documents, and its groups."""
    (curve,) = depth_curves(records)
    read = read_depths(curve, "test")
    samples = Bootstrap(samples=SAMPLES, seed=seed).resample(read.groups, read.scores)
    return read.scores(np.ones((1, read.n_sentences))), samples, read.groups


def main() -> None:
    """Train what is missing, and write the tables of each model."""
    args = argument_parser(__doc__, "models").parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    parts = [INTRODUCTION]
    for model in args.models:
        found: dict[str, tuple[Scores, Scores, Groups]] = {}
        for task, (name, label) in TASKS.items():
            spec = TrainSpec(
                model=model, task=name, label=label, head="scalar-mix", fraction=FRACTION
            )
            where = Location(cache=args.cache)
            n_blocks = open_features(model, name, label, where).manifest.n_blocks
            records = run(product(spec, {"depth": depths(n_blocks)}))
            # the two tasks of the treebank share documents, so they get the same draws
            found[task] = sampled(records, seed=int(name == "conll"))
        parts += [f"## {Path(model).stem}", *tables(found)]
    write(NAME, parts)


def tables(found: dict[str, tuple[Scores, Scores, Groups]]) -> list[str]:
    """Return the scores and expected layers of a model's tasks, and the latters' differences."""
    layers: dict[str, tuple[float, np.ndarray, Groups]] = {}
    lines = []
    for task, (scores, samples, groups) in found.items():
        value, drawn = float(expected_layer(scores)[0]), expected_layer(samples)
        layers[task] = value, drawn, groups
        ends = estimate(value, drawn, groups).text()
        lines.append([task, *(f"{100 * score:.1f}" for score in scores[0]), ends])
    n_depths = next(iter(found.values()))[0].shape[1]
    header = ["", *(f"depth {n}" for n in range(n_depths)), "expected layer"]
    differences: dict[str, Estimate] = {}
    for first, second in combinations(layers, 2):
        (a, drawn_a, groups), (b, drawn_b, _) = layers[first], layers[second]
        differences[f"{second} less {first}"] = estimate(b - a, drawn_b - drawn_a, groups)
    levels = holm({name: each.p for name, each in differences.items()})
    said = [
        [name, each.text(signed=True, decimals=2) + r"\*" * (levels[name] < 0.05)]
        for name, each in differences.items()
    ]
    return [markdown(header, lines), markdown(["expected layers", "difference"], said)]


if __name__ == "__main__":
    main()
