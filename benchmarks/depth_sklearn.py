"""Claim 9: converged linear probes at every depth and strength of L2 against scikit-learn's loop.

RTE, SmolLM2-135M, last token (2,490 rows x 31 layers x 576, two classes) and 20,000 rows of CoNLL,
MPNet (every fourth of 13 layers x 768, nine tags: theirs takes most of a minute per layer), eight
strengths each, from rows in memory in float32, standardised alike. Theirs: for every strength from
strong to weak LogisticRegression (lbfgs, ``warm_start``) with the loosest tolerance of a few at
which the objectives, summed over three layers or so, are at most ours. Ours: moments, components
and all strengths side by side, layer by layer. Both use all threads. The middle layer of the full
train split of CoNLL is timed as well. ``--profile`` says instead where our time goes in a middle
layer: of CoNLL's, half is matrix products (``addmm``, ``addmm_`` and that of ``_add``), most of
them of few logits with all rows, far below a processor's peak.

    python benchmarks/depth_sklearn.py --models MODELS --data DATA [--work FOLDER] [--rounds 1]
"""

import argparse
import cProfile
import math
import pstats
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from measure import Claim, alternate, at_least, report, timed
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from subjects import MPNET, SMOLLM, data_path, model_path, parser, work_folder

from probekit import Location, extract, open_features
from probekit.features import FeatureView
from probekit.probe.fitters.linear_problems import LinearObjective, Problems
from probekit.probe.fitters.losses import Binary, Softmax
from probekit.probe.fitters.minimise import Minimum
from probekit.probe.fitters.preconditioner import BasisBuilder, Scale
from probekit.probe.normalization.standardization import Moments
from probekit.train.solving.solved_fit import drive

STRENGTHS = tuple(10.0**decade for decade in (1, 0.25, -0.5, -1.25, -2, -2.75, -3.5, -4.25))
BLOCK = 8192
"""Rows at a time, as in a sweep."""

TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
EXCESS = 1e-6
"""Relative excess of their objectives over ours that counts as equal."""

PATIENCE = 100
"""Seconds at a tolerance after which a solver is not asked for a stricter one."""

Fits = Iterator[tuple[np.ndarray, np.ndarray]]
"""The weights (classes or one, D) and biases at every strength, from strong to weak."""

Solver = Callable[[np.ndarray, np.ndarray, float], Fits]
"""Fits standardised rows and their classes to a tolerance."""


@dataclass(frozen=True)
class Subject:
    """What is probed: a model and a task, how many rows of train and which layers, and the aim."""

    title: str
    model: str
    task: str
    data: str
    rows: int | None
    every: int
    aim: float


SUBJECTS = (
    Subject("RTE, SmolLM2-135M", SMOLLM, "glue/rte", "glue/RTE", None, 1, 20.0),
    Subject("20,000 words of CoNLL, MPNet", MPNET, "conll", "conll2003", 20_000, 4, 8.0),
)


def main() -> None:
    """Measure and report."""
    options = parser(__doc__)
    options.add_argument("--profile", action="store_true", help="say where our time goes")
    args = options.parse_args()
    with work_folder(args) as folder:
        for subject in SUBJECTS:
            if args.profile:
                profile(subject, args, folder)
            else:
                report([measure(subject, args, folder)], args)


def profile(subject: Subject, args: argparse.Namespace, folder: Path) -> None:
    """Print the functions of our fit of a middle layer that take longest."""
    layers, y = read(subject, rows_of(subject, args, folder))
    with cProfile.Profile() as found:
        ours(layers[len(layers) // 2], y)
    pstats.Stats(found).sort_stats("tottime").print_stats(12)


def measure(subject: Subject, args: argparse.Namespace, folder: Path) -> Claim:
    """Return the claim for a subject."""
    view = rows_of(subject, args, folder)
    layers, y = read(subject, view)
    tolerance, _ = equal_tolerance(layers[1 :: max(len(layers) // 3, 2)], y)
    sides = {
        "theirs": timed(lambda: [theirs(x, y, tolerance) for x in layers]),
        "ours": timed(lambda: [ours(x, y) for x in layers]),
    }
    timings = alternate(sides, args.rounds)
    full = ""
    if subject.rows is not None:
        full = f"; a depth of all {len(view):,} rows: {full_split(view):.0f} s"
    return at_least(
        9,
        f"linear probes at {len(layers)} depths x {len(STRENGTHS)} strengths, {subject.title}",
        timings.ratio("theirs", "ours"),
        subject.aim,
        f"{timings.median('ours'):.1f} s against {timings.median('theirs'):.1f} s with a tolerance "
        f"of {tolerance:g}{full}",
    )


def rows_of(subject: Subject, args: argparse.Namespace, folder: Path) -> FeatureView:
    """Return the train rows of a subject, extracted where they are not."""
    model, cache = model_path(args, subject.model), folder / "cache"
    data = data_path(args, subject.data)
    extract(model, subject.task, data=data, splits=["train"], device=args.device, cache=cache)
    splits = open_features(Path(model).stem, subject.task, None, Location(cache=cache))
    return splits.view("train", valid_only=True)


def read(subject: Subject, view: FeatureView) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return the rows of every layer that is probed, and their classes."""
    n_rows = min(subject.rows or len(view), len(view))
    layers = [view.array.read(torch.from_numpy(view.rows[:n_rows]), (n,))[:, 0].float()
              for n in view.array.layers[:: subject.every]]  # fmt: skip
    return layers, torch.unique(torch.from_numpy(view.targets[:n_rows]), return_inverse=True)[1]


def ours(x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """Return the objective at every strength."""
    builder = BasisBuilder(scale_of(x), len(x))
    builder.add(x)
    basis = builder.finish()
    z = basis.apply(x)
    n_classes = int(y.max()) + 1
    loss = Binary(y) if n_classes == 2 else Softmax(y, n_classes)
    problems = Problems.of(STRENGTHS, torch.ones(1, len(x), device=x.device))
    objective = LinearObjective(loss, problems, basis.spectrum)
    starts = range(0, len(z), BLOCK)
    rows = [(slice(n, min(n + BLOCK, len(z))), z[n : n + BLOCK]) for n in starts]
    return solve(objective, rows).value.cpu().numpy()


def scale_of(x: torch.Tensor) -> Scale:
    """Return what standardises rows, for all solvers: dead channels are not blown up."""
    moments = Moments()
    moments.add(x.unsqueeze(1))
    return Scale.of(*(one.squeeze(0) for one in moments.result()))


def solve(objective: LinearObjective, rows: list[tuple[slice, torch.Tensor]]) -> Minimum:
    """Run the minimisation of all problems to its end, over rows in blocks."""
    visits = drive(objective.descent().go_on(), objective.begin)
    try:
        while True:
            visit = next(visits)
            for places, block in rows:
                visit.take(places, block)
    except StopIteration as end:
        minimum: Minimum = end.value
        return minimum


def loop(z: np.ndarray, y: np.ndarray, tolerance: float, solver: str = "lbfgs") -> Fits:
    """Fit scikit-learn's model, strength by strength."""
    model = LogisticRegression(tol=tolerance, max_iter=10_000, warm_start=True, solver=solver)
    for l2 in STRENGTHS:
        model.set_params(C=1 / (len(z) * l2)).fit(z, y)
        yield model.coef_, model.intercept_


def objective(
    z: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, l2: float
) -> float:
    """Return the mean loss of a fit, and half its squared weights times ``l2``."""
    logits = z @ weight.T + bias
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], 1)
    loss = logsumexp(logits, 1) - logits[np.arange(len(y)), y]
    return loss.mean(dtype=np.float64) + l2 / 2 * np.square(weight, dtype=np.float64).sum()


def theirs(x: torch.Tensor, y: torch.Tensor, tolerance: float, path: Solver = loop) -> np.ndarray:
    """Return the objective at every strength, of scikit-learn's loop or another path of fits."""
    z, classes = scale_of(x).apply(x).numpy(), y.numpy()
    fits = zip(STRENGTHS, path(z, classes, tolerance), strict=True)
    return np.array([objective(z, classes, *fit, l2) for l2, fit in fits])


def equal_tolerance(
    layers: list[torch.Tensor], y: torch.Tensor, path: Solver = loop
) -> tuple[float, float]:
    """Return the loosest of some tolerances at which their objectives are no larger than ours.

    And the relative excess of their sum over ours there. None may be strict enough: then the
    strictest, or the first that takes longer than `PATIENCE`.
    """
    best = sum(ours(x, y).sum() for x in layers)
    excess = math.inf
    for tolerance in TOLERANCES:
        start = time.perf_counter()
        excess = sum(theirs(x, y, tolerance, path).sum() for x in layers) / best - 1
        if excess <= EXCESS or time.perf_counter() - start > PATIENCE:
            break
    return tolerance, excess


def full_split(view: FeatureView) -> float:
    """Return the seconds that the middle depth of a full split takes, reading included."""
    y = torch.unique(torch.from_numpy(view.targets), return_inverse=True)[1]
    start = time.perf_counter()
    layer = view.array.layers[len(view.array.layers) // 2]
    ours(view.array.read(torch.from_numpy(view.rows), (layer,))[:, 0].float(), y)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
