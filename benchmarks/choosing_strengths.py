"""Claim 48: a strength of L2 is chosen sooner if strengths that are behind are left.

Solved probes of three layers of MiniLM on CoNLL-2003, alternating with the same fits that solve
every strength to the end: a tenth of train, chosen by five folds or by dev, and five draws of 128
shots. The details count the fits that chose another strength, and by how much the held-out score of
theirs is below the best at most. Smaller fits leave none (`LARGE` in `strength_path.py`).

    python benchmarks/choosing_strengths.py --models MODELS --data DATA [--rounds 3]
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from measure import Claim, alternate, report
from subjects import MINILM, extract_conll, parser, work_folder

from probekit import Location, Record, TrainSpec, product, sweep
from probekit.train.solving import strength_path

AIM = 2.0

BASE = TrainSpec(model=MINILM, task="conll", head="last", select="cv:5")
TENTH = product(BASE, {"layers": ((1,), (3,), (6,)), "fraction": (0.1,)})
PLANS: dict[str, Sequence[TrainSpec]] = {
    "a tenth of CoNLL, folds": TENTH,
    "a tenth of CoNLL, dev": [replace(one, select="dev") for one in TENTH],
    "128 shots of CoNLL": product(BASE, {"layers": ((3,),), "shots": (128,), "seed": range(5)}),
}


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        location = Location(cache=folder / "cache")
        extract_conll(args, location.cache, splits=["train", "dev"])
        report([measure(name, args, folder, location) for name in PLANS], args)


def measure(name: str, args: argparse.Namespace, folder: Path, location: Location) -> Claim:
    """Return the claim for a plan."""
    records: dict[str, list[Record]] = {}

    def run(side: str, large: float) -> float:
        out = folder / "runs.jsonl"
        out.unlink(missing_ok=True)
        strength_path.LARGE = large
        records[side] = list(
            sweep(PLANS[name], out=out, location=location, device=args.device, predictions=False)
        )
        return sum(record.train_seconds for record in records[side])

    sides = {"all": lambda: run("all", math.inf), "left": lambda: run("left", 0.0)}
    timings = alternate(sides, args.rounds)
    ratio = timings.ratio("all", "left")
    regrets = []
    for whole, left in zip(records["all"], records["left"], strict=True):
        if left.diagnosis["strength"] != whole.diagnosis["strength"]:
            regrets.append(whole.diagnosis["selection_score"] - left.diagnosis["selection_score"])
    worst = f", {100 * max(regrets):.2f} points below the best at most" if regrets else ""
    return Claim(
        number=48,
        title=f"choosing a strength of L2 against solving all to the end: {name}",
        aim=f">= {AIM:g} x at equal scores",
        found=f"{ratio} x",
        reached=ratio.median >= AIM and not regrets,
        details=f"{len(records['all'])} fits, {timings.median('left'):.1f} s against "
        f"{timings.median('all'):.1f} s; {len(regrets)} chose another strength{worst}",
    )


if __name__ == "__main__":
    main()
