"""Claims 1, 2, 7, 9, 10 and 12 of this checkout against those of an earlier commit.

Our side of each claim is timed in a process of its own, at small size, in this checkout and in one
of the commit, in turn: what the libraries and the processor do is the same for both.

    python benchmarks/against.py COMMIT --models MODELS --data DATA
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from subjects import MINILM, MPNET, data_path, model_path, parser, work_folder

HEADS = ("p32", "attention-fusion", "dwatt", "concat")
LIGHT = ("last", "mean", "p32", "scalar-mix", "attention-fusion")
SENTENCES = 600
CHECKOUT = Path(__file__).parents[1]


def main() -> None:
    """Time both checkouts in turn, and print how their seconds compare."""
    options = parser(__doc__)
    options.add_argument("commit", nargs="?", help="left out: time what is imported, and print it")
    args = options.parse_args()
    with work_folder(args) as folder:
        if args.commit is None:
            print(json.dumps(measure(args, folder)))
            return
        earlier = folder / "earlier"
        git = ("git", "-C", str(CHECKOUT), "worktree")
        subprocess.run([*git, "add", "--detach", str(earlier), args.commit], check=True)
        from measure import Timings

        try:
            seconds = in_turn({"then": earlier, "now": CHECKOUT}, args, folder)
        finally:
            subprocess.run([*git, "remove", "--force", str(earlier)], check=True)
    print("| what | now, seconds | now over then |\n|---|---|---|")
    for what, both in seconds.items():
        timings = Timings(both)
        print(f"| {what} | {timings.median('now'):.2f} | {timings.ratio('now', 'then')} |")


def in_turn(
    checkouts: dict[str, Path], args: argparse.Namespace, folder: Path
) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each checkout, by what was timed."""
    seconds: dict[str, dict[str, list[float]]] = {}
    for turn in range(args.rounds):
        for name in checkouts if turn % 2 == 0 else reversed(checkouts):
            command = [sys.executable, __file__, "--models", args.models, "--data", args.data]
            run = subprocess.run(
                [*map(str, command), "--work", str(folder / f"{name}-{turn}")],
                check=True,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(checkouts[name])},
            )
            for what, took in json.loads(run.stdout.splitlines()[-1]).items():
                seconds.setdefault(what, {}).setdefault(name, []).append(took)
            print(f"turn {turn + 1} of {args.rounds}, {name}: done", file=sys.stderr)
    return seconds


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long some work takes; `measure` imports what an earlier commit has elsewhere."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Return the seconds of our side of each claim, with what is imported."""
    from probekit import ExtractOptions, Location, TrainSpec, extract, open_features, product, sweep

    cache, data = folder / "cache", data_path(args, "conll2003")
    seconds = {}
    for claim, model, limit in ((2, MINILM, SENTENCES), (1, MPNET, SENTENCES // 5)):
        few = ExtractOptions(limit=limit)
        path, splits = model_path(args, model), ["train", "dev"]
        seconds[f"{claim}: extraction, {model}"] = seconds_of(
            lambda path=path, few=few, splits=splits: extract(
                path, "conll", data=data, splits=splits, options=few, cache=cache
            )
        )
    location = Location(cache=cache)
    base = TrainSpec(model=MINILM, task="conll", head="last")
    epochs = product(base, {"fit": ["adam"], "epochs": [10], "evals": [1]})[0]
    of_heads = product(epochs, {"head": HEADS})
    few_shots = product(epochs, {"head": LIGHT, "seed": range(5), "shots": (8, 64)})
    plans = {
        **{f"7: ten epochs from the cache, {spec.head}": [spec] for spec in of_heads},
        "9: solved probes of seven depths": product(base, {"depth": range(7)}),
        "10: a sweep of 50 runs of light heads": few_shots,
    }
    for number, (what, plan) in enumerate(plans.items()):
        out = folder / f"{number}.jsonl"
        seconds[what] = seconds_of(
            lambda plan=plan, out=out: sweep(plan, out=out, location=location)
        )
    view = open_features(MINILM, "conll", None, location).view("train")

    def read() -> None:
        view.array.read(slice(None), view.array.layers)

    seconds["12: reading all rows the first time in a process"] = seconds_of(read)
    seconds["12: reading all rows, 50 times"] = sum(seconds_of(read) for _ in range(50))
    return seconds


if __name__ == "__main__":
    main()
