"""Claims 10 and 11: a sweep against the same runs one by one, and two workers against one.

7 heads x 5 seeds x 2 sizes (8 and 64 shots), minilm-l6 on CoNLL-2003, 10 epochs. Claim 10: one
process with all threads on both sides; the light heads (a few values per layer) and the heavy ones
apart. The runs one by one open the features each time, which the details tell apart. Claim 11:
worker processes on two cores, one thread each; what starting them costs is told by two tiny runs,
with two workers and with one.

    python benchmarks/sweeping.py --models MODELS --data DATA
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from measure import Claim, alternate, report, timed
from subjects import MINILM, data_path, model_path, parser, work_folder

from probekit import Location, TrainSpec, extract, open_features, product, sweep

LIGHT = ("last", "mean", "p32", "scalar-mix", "attention-fusion")
HEAVY = ("concat", "dwatt")
SEEDS, SHOTS = range(5), (8, 64)
AIMS = {"light": 1.5, "heavy": 1.0}
WORKERS_AIM = 1.8


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        cache = folder / "cache"
        extract(
            model_path(args, MINILM),
            "conll",
            data=data_path(args, "conll2003"),
            splits=["train", "dev"],
            device=args.device,
            cache=cache,
        )
        report(measure(args, folder, Location(cache=cache)), args)


def measure(args: argparse.Namespace, folder: Path, location: Location) -> list[Claim]:
    """Return the claims."""
    base = TrainSpec(model=MINILM, task="conll", head="last", epochs=10, evals=2)
    options = {"seed": SEEDS, "shots": SHOTS}
    plans = {
        "light": product(base, {"head": LIGHT, **options}),
        "heavy": product(base, {"head": HEAVY, **options}),
    }
    numbers = iter(range(10**6))

    def run(plan: Sequence[TrainSpec], workers: int = 1) -> None:
        sweep(
            plan,
            out=folder / f"{next(numbers)}.jsonl",
            location=location,
            device=args.device,
            workers=workers,
        )

    def one_by_one(plan: Sequence[TrainSpec]) -> None:
        for spec in plan:
            run([spec])

    def open_again() -> None:
        open_features(MINILM, "conll", None, location)

    claims = []
    for name, plan in plans.items():
        sides = {
            "opening": timed(open_again),
            "sweep": timed(lambda plan=plan: run(plan)),
            "single": timed(lambda plan=plan: one_by_one(plan)),
        }
        timings = alternate(sides, args.rounds)
        ratio = timings.ratio("single", "sweep")
        claims.append(
            Claim(
                number=10,
                title=f"a sweep of {len(plan)} runs of {name} heads against one by one, {MINILM}",
                aim=f">= {AIMS[name]:g} x",
                found=f"{ratio} x",
                reached=ratio.median >= AIMS[name],
                details=f"{timings.median('sweep'):.1f} s against {timings.median('single'):.1f} "
                f"s, of which opening features {len(plan) * timings.median('opening'):.1f} s",
            )
        )
    everything = [*plans["light"], *plans["heavy"]]
    tiny = product(base, {"head": ("last",), "seed": (0, 1), "shots": (1,), "epochs": (1,)})
    threads, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    torch.set_num_threads(1)
    os.sched_setaffinity(0, sorted(cores)[:2])
    sides = {
        "one": timed(lambda: run(everything)),
        "two": timed(lambda: run(everything, workers=2)),
        "tiny, one": timed(lambda: run(tiny)),
        "tiny, two": timed(lambda: run(tiny, workers=2)),
    }
    timings = alternate(sides, args.rounds)
    torch.set_num_threads(threads)
    os.sched_setaffinity(0, cores)
    ratio = timings.ratio("one", "two")
    starting = timings.median("tiny, two") - timings.median("tiny, one")
    claims.append(
        Claim(
            number=11,
            title=f"that sweep with 2 workers against 1, one thread each, {MINILM}",
            aim=f">= {WORKERS_AIM:g} x",
            found=f"{ratio} x",
            reached=ratio.median >= WORKERS_AIM,
            details=f"{timings.median('two'):.1f} s, of which starting the workers {starting:.1f}, "
            f"against {timings.median('one'):.1f} s",
        )
    )
    return claims


if __name__ == "__main__":
    main()
