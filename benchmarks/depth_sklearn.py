"""Claim 9: linear probes at every depth of a decoder against scikit-learn, layer by layer.

SmolLM2-135M on SST-2, last token, 6,000 rows of train, scored on dev. Theirs: StandardScaler and
LogisticRegression (lbfgs, C = 0.01, at most 200 iterations) per layer, from an array in memory.
Ours: ``probekit depth --normalize standardize`` on the same examples, reading included, scored
once at the end. Both use all threads.

    python benchmarks/depth_sklearn.py --models MODELS --data DATA
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from measure import Claim, alternate, report
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from subjects import SMOLLM, data_path, model_path, parser, work_folder

from probekit import ExtractOptions, Location, TrainSpec, extract, open_features, product, sweep

ROWS = 6_000
TRAINING = {"epochs": 3, "batch_size": 64, "lr": 2e-3}
AIM, TOLERANCE = 4.0, 0.5


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        report([measure(args, folder)], args)


def measure(args: argparse.Namespace, folder: Path) -> Claim:
    """Return the claim."""
    cache, path = folder / "cache", model_path(args, SMOLLM)
    extract(
        path,
        "glue/sst2",
        data=data_path(args, "glue/SST-2"),
        splits=["train", "dev"],
        options=ExtractOptions(keep=("last",), limit=ROWS),
        device=args.device,
        cache=cache,
    )
    location, model = Location(cache=cache), Path(path).stem
    splits = open_features(model, "glue/sst2", None, location)
    train, dev = splits.view("train"), splits.view("dev")
    arrays = {
        name: view.array.read(torch.from_numpy(view.rows), view.array.layers).float().numpy()
        for name, view in (("train", train), ("dev", dev))
    }
    scores: dict[str, float] = {}

    def theirs() -> float:
        start = time.perf_counter()
        found = []
        for layer in range(splits.n_blocks + 1):
            probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=200))
            probe.fit(arrays["train"][:, layer], train.targets)
            found.append(probe.score(arrays["dev"][:, layer], dev.targets))
        scores["theirs"] = float(np.mean(found))
        return time.perf_counter() - start

    base = TrainSpec(
        model=model,
        task="glue/sst2",
        head="last",
        decoder="linear",
        normalize="standardize",
        evals=1,
        **TRAINING,
    )
    plan = product(base, {"depth": range(splits.n_blocks + 1)})
    files = iter(range(10**6))

    def ours() -> float:
        start = time.perf_counter()
        records = sweep(
            plan, out=folder / f"{next(files)}.jsonl", location=location, device=args.device
        )
        scores["ours"] = float(np.mean([record.eval_score for record in records]))
        return time.perf_counter() - start

    timings = alternate({"theirs": theirs, "ours": ours}, args.rounds)
    ratio = timings.ratio("theirs", "ours")
    difference = 100 * (scores["ours"] - scores["theirs"])
    equal = abs(difference) <= TOLERANCE
    return Claim(
        number=9,
        title=f"linear probes at {len(plan)} depths against scikit-learn, SmolLM2-135M",
        aim=f">= {AIM:g} x at mean scores within {TOLERANCE} points",
        found=f"{ratio} x; mean accuracy {100 * scores['ours']:.2f} against "
        f"{100 * scores['theirs']:.2f}",
        reached=ratio.median >= AIM and equal,
        details=f"{timings.median('ours'):.1f} s against {timings.median('theirs'):.1f} s",
    )


if __name__ == "__main__":
    main()
