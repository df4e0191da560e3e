"""Claims 10 and 11: a sweep against the same runs one by one, and two workers against one.

7 heads x 5 seeds x 2 sizes (8 and 64 shots), minilm-l6 on CoNLL-2003, 10 epochs. Claim 10: one
process with all threads on both sides; the light heads (at most d values) and the heavy ones apart.
The runs one by one open the features each time, which the details tell apart. Claim 11: worker
processes on two cores, one thread each; what starting them costs is told by two tiny runs, with two
workers and with one. What the machine itself allows is told by two processes that, started before,
each train the same runs of dwatt and concat, against one of them alone. Workers import this file,
as those of `probekit train` import its command line, so it imports transformers only to extract.

    python benchmarks/sweeping.py --models MODELS --data DATA
"""

import argparse
import itertools
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch
from measure import Claim, Ratio, alternate, at_least, report, timed
from subjects import LARGE, MINILM, extract_conll, parser, work_folder

from probekit import Location, TrainSpec, fit, open_features, product, sweep

LIGHT = ("last", "mean", "p32", "scalar-mix", "attention-fusion")
HEAVY = ("concat", "dwatt")
SEEDS, SHOTS = range(5), (8, 64)
AIMS = {"light": 1.5, "heavy": 1.0}
WORKERS_AIM = 1.8


def main() -> None:
    """Measure and report."""
    options = parser(__doc__)
    options.add_argument("--model", choices=(MINILM, LARGE), default=MINILM)
    args = options.parse_args()
    with work_folder(args) as folder:
        cache = folder / "cache"
        extract_conll(args, cache, args.model, splits=["train", "dev"])
        report(measure(args, folder, Location(cache=cache)), args)


def measure(args: argparse.Namespace, folder: Path, location: Location) -> list[Claim]:
    """Return the claims."""
    base = TrainSpec(model=args.model, task="conll", head="last", epochs=10, evals=2)
    options = {"seed": SEEDS, "shots": SHOTS}
    plans = {
        "light": product(base, {"head": LIGHT, **options}),
        "heavy": product(base, {"head": HEAVY, **options}),
    }
    tiny = product(base, {"head": ("last",), "seed": (0, 1), "shots": (1,), "epochs": (1,)})
    sweeps = Sweeps(folder, location, args.device)
    claims = [sharing(name, plan, sweeps, args.rounds) for name, plan in plans.items()]
    with two_cores():
        claims.append(workers([*plans["light"], *plans["heavy"]], tiny, sweeps, args.rounds))
    return claims


class Sweeps:
    """Runs sweeps of cached features, each with a records file of its own."""

    def __init__(self, folder: Path, location: Location, device: str) -> None:
        """Keep what all of them share."""
        self.location = location
        self._folder = folder
        self._device = device
        self._numbers = itertools.count()

    def run(self, plan: Sequence[TrainSpec], workers: int = 1) -> None:
        """Train the runs of a plan as one sweep."""
        sweep(
            plan,
            out=self._folder / f"{next(self._numbers)}.jsonl",
            location=self.location,
            device=self._device,
            workers=workers,
        )

    def one_by_one(self, plan: Sequence[TrainSpec]) -> None:
        """Train each run of a plan by itself."""
        for spec in plan:
            self.run([spec])


def sharing(name: str, plan: Sequence[TrainSpec], sweeps: Sweeps, rounds: int) -> Claim:
    """Return the claim about runs that share what they read."""
    sides = {
        "opening": timed(lambda: open_features(plan[0].model, "conll", None, sweeps.location)),
        "sweep": timed(lambda: sweeps.run(plan)),
        "single": timed(lambda: sweeps.one_by_one(plan)),
    }
    timings = alternate(sides, rounds)
    return at_least(
        10,
        f"a sweep of {len(plan)} runs of {name} heads against one by one, {plan[0].model}",
        timings.ratio("single", "sweep"),
        AIMS[name],
        details=f"{timings.median('sweep'):.1f} s against {timings.median('single'):.1f} "
        f"s, of which opening features {len(plan) * timings.median('opening'):.1f} s",
    )


@contextmanager
def two_cores() -> Iterator[None]:
    """Give this process, and those that it starts, one thread each and two cores together."""
    threads, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    try:
        torch.set_num_threads(1)
        os.sched_setaffinity(0, sorted(cores)[:2])
        yield
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, cores)


def workers(
    plan: Sequence[TrainSpec], tiny: Sequence[TrainSpec], sweeps: Sweeps, rounds: int
) -> Claim:
    """Return the claim about worker processes, whose start the tiny plan measures."""
    sides = {
        "one": timed(lambda: sweeps.run(plan)),
        "two": timed(lambda: sweeps.run(plan, workers=2)),
        "tiny, one": timed(lambda: sweeps.run(tiny)),
        "tiny, two": timed(lambda: sweeps.run(tiny, workers=2)),
    }
    timings = alternate(sides, rounds)
    one_of_each = (SEEDS[0], SHOTS[-1])
    heavy = [s for s in plan if s.head in HEAVY and (s.seed, s.shots) == one_of_each]
    starting = timings.median("tiny, two") - timings.median("tiny, one")
    return at_least(
        11,
        f"that sweep with 2 workers against 1, one thread each, {plan[0].model}",
        timings.ratio("one", "two"),
        WORKERS_AIM,
        details=f"{timings.median('two'):.1f} s, of which starting the workers {starting:.1f}, "
        f"against {timings.median('one'):.1f} s; two processes that each train the same heavy runs "
        f"do {two_at_once(heavy, sweeps.location, rounds)} x the work of one",
    )


def two_at_once(specs: Sequence[TrainSpec], location: Location, rounds: int) -> Ratio:
    """Return how many times the work of one process two do in the same time, once started."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, spawn, torch.set_num_threads, (1,)) as pool:

        def run(count: int) -> None:
            for future in [pool.submit(train, specs, location) for _ in range(count)]:
                future.result()

        timings = alternate({"two": timed(lambda: run(2)), "one": timed(lambda: run(1))}, rounds)
    return timings.ratio("one", "two", scale=2)


def train(specs: Sequence[TrainSpec], location: Location) -> None:
    """Train runs one after the other."""
    for spec in specs:
        fit(spec, location=location, device="cpu")


if __name__ == "__main__":
    main()
