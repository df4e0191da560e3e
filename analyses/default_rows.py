"""Default pooling and ``--normalize``: what solved probes read best.

Pooling: probes of single layers, strength of L2 by five folds of train, scored on dev. Normalize:
solved mixtures on raw, layer-normed and standardised rows, 8 shots, dev (which also chose the
strength of L2). Its five draws, seeds from 100, are reported nowhere else. Finished runs are
skipped, so the script can be stopped and resumed.

    probekit extract MODEL TASK --data DATA --split train,dev
    python analyses/default_rows.py MODEL:TASK[:LABEL] ... --workers 2
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from shared import RESULTS, argument_parser, cell, markdown, runner, subject, write

from probekit import Location, Record, open_features, product

POOLINGS = ("cls", "mean", "last")
MIXTURES = ("mean", "p32", "attention-fusion")
TREATMENTS = ("none", "layernorm", "standardize")
MOST_DEPTHS = 11
FEW: Mapping[str, Iterable[object]] = {
    "fit": ["lbfgs"],
    "select": ["dev"],
    "shots": [8],
    "seed": range(100, 105),
}


def main() -> None:
    """Train what is missing, then write the tables."""
    parser = argument_parser(__doc__)
    parser.add_argument("subjects", nargs="+", type=subject, metavar="MODEL:TASK[:LABEL]")
    args = parser.parse_args()
    run = runner(RESULTS / "default_rows.jsonl", args)
    pooled: list[Record] = []
    treated: list[Record] = []
    for base in args.subjects:
        splits = open_features(base.model, base.task, base.label, Location(cache=args.cache))
        if splits.kind != "tagging":
            every = -(-(splits.manifest.n_blocks + 1) // MOST_DEPTHS)
            depths = range(0, splits.manifest.n_blocks + 1, every)
            sizes = {"pooling": POOLINGS, "depth": depths, "select": ["cv:5"]}
            pooled += run(product(base, sizes))
        else:
            treated += run(product(base, {"normalize": TREATMENTS, "head": MIXTURES, **FEW}))
    write("default_rows", ["# What probes read best", poolings(pooled), treatments(treated)])


def poolings(records: Sequence[Record]) -> str:
    """Return scores by pooling: mean over the depths, best depth, last layer."""
    lines = []
    for name, own in by_subject(records):
        for pooling in POOLINGS:
            scores = [(r.depth, 100 * r.eval_score) for r in own if r.pooling == pooling]
            values = [score for _, score in scores]
            shown = (fmean(values), max(values), max(scores)[1])
            lines.append([name, pooling, *(f"{value:.1f}" for value in shown)])
    header = ["subject", "pooling", "mean over depths", "best depth", "last layer"]
    return "\n\n".join(["## Pooling: dev (%)", markdown(header, lines, words=2)])


def treatments(records: Sequence[Record]) -> str:
    """Return dev scores of solved mixtures by their rows."""
    lines = []
    for name, own in by_subject(records):
        for head in MIXTURES:
            chosen = ([r for r in own if (r.head, r.normalize) == (head, t)] for t in TREATMENTS)
            lines.append([name, f"`{head}`", *(cell(one, "eval_score") for one in chosen)])
    header = ["subject", "head", *TREATMENTS]
    title = "## Rows of solved mixtures: dev (%), 8 shots, mean ± half width of the 95 % interval"
    return "\n\n".join([title, markdown(header, lines, words=2)])


def by_subject(records: Iterable[Record]) -> Iterable[tuple[str, list[Record]]]:
    """Return the records of each model and task, by a name."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(f"{record.model}, {record.task} {record.label}", []).append(record)
    return found.items()


if __name__ == "__main__":
    main()
