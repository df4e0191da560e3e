"""Claim 46: converged linear probes against other solvers, at the same rows and objective.

The rows of `depth_sklearn.py` in memory: two classes (RTE) and nine (20,000 words of CoNLL), a few
layers, eight strengths of L2 from strong to weak, each solver with its own warm start or path and
the loosest of a few tolerances at which its objectives are at most ours. All use all threads. Of
two classes only: glum has no softmax, snapml fits one class against the rest. adelie is not here:
where its objectives come near ours (``tol=1e-9``) its descent does not end in minutes. Nor is
newton-cholesky with nine classes, a step of which takes 8 seconds.

    pip install glum==3.4.1 snapml==1.17.2 cyanure==1.2.2
    python benchmarks/solver_rivals.py --models MODELS --data DATA [--rounds 1]
"""

import argparse
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from depth_sklearn import (
    EXCESS,
    STRENGTHS,
    SUBJECTS,
    Fits,
    Solver,
    Subject,
    equal_tolerance,
    loop,
    ours,
    read,
    rows_of,
    theirs,
)
from measure import Claim, alternate, at_least, report, timed
from subjects import parser, require, work_folder

N_LAYERS = (3, 1)
"""Layers of each subject that are timed."""

MAX_ITER = 10_000


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    require(__file__, (package for package, _ in (*SOFTMAX, *TWO_CLASSES)))
    with work_folder(args) as folder:
        for subject, n_layers in zip(SUBJECTS, N_LAYERS, strict=True):
            report(measure(subject, n_layers, args, folder), args)


def measure(subject: Subject, n_layers: int, args: argparse.Namespace, folder: Path) -> list[Claim]:
    """Return a claim for every solver that has the objective."""
    layers, y = read(subject, rows_of(subject, args, folder))
    layers = layers[1 :: max(len(layers) // n_layers, 2)][:n_layers]
    solvers = SOFTMAX | (TWO_CLASSES if y.max() == 1 else {})
    threads = torch.get_num_threads()
    sides = {"ours": timed(partial(with_threads, threads, lambda: [ours(x, y) for x in layers]))}
    tolerances = {}
    for (package, kind), solver in solvers.items():
        name = f"{package} {version(package)}{kind}"
        tolerance, _ = tolerances[name] = equal_tolerance(layers, y, solver)
        fits = partial(run, layers, y, tolerance, solver)
        sides[name] = timed(partial(with_threads, threads, fits))
    timings = alternate(sides, args.rounds)
    claims = []
    for name, (tolerance, excess) in tolerances.items():
        equal = "" if excess <= EXCESS else f", its objectives {excess:.1e} above ours at best"
        claims.append(
            at_least(
                46,
                f"linear probes against {name}, {subject.title}",
                timings.ratio(name, "ours"),
                1.0,
                f"{len(layers)} depths x {len(STRENGTHS)} strengths: "
                f"{timings.median('ours'):.1f} s against {timings.median(name):.1f} s with a "
                f"tolerance of {tolerance:g}{equal}",
            )
        )
    return claims


def with_threads(threads: int, fits: Callable[[], object]) -> None:
    """Fit with all threads, which some solvers take from those after them."""
    torch.set_num_threads(threads)
    fits()
    torch.set_num_threads(threads)


def run(layers: list[torch.Tensor], y: torch.Tensor, tolerance: float, solver: Solver) -> None:
    """Fit all layers."""
    for x in layers:
        theirs(x, y, tolerance, solver)


def glum(z: np.ndarray, y: np.ndarray, tolerance: float) -> Fits:
    """Fit two classes by iteratively reweighted least squares."""
    from glum import GeneralizedLinearRegressor

    model = GeneralizedLinearRegressor(
        family="binomial", l1_ratio=0, gradient_tol=tolerance, max_iter=MAX_ITER, warm_start=True
    )
    # in float32 its steps do not end
    rows, classes = z.astype(np.float64), y.astype(np.float64)
    for l2 in STRENGTHS:
        model.set_params(alpha=l2).fit(rows, classes)
        yield model.coef_[None], np.array([model.intercept_])


def snapml(z: np.ndarray, y: np.ndarray, tolerance: float) -> Fits:
    """Fit two classes by dual coordinate descent."""
    from snapml import LogisticRegression

    for l2 in STRENGTHS:
        model = LogisticRegression(
            regularizer=len(z) * l2,
            tol=tolerance,
            max_iter=MAX_ITER,
            fit_intercept=True,
            n_jobs=torch.get_num_threads(),
        )
        model.fit(z, y.astype(np.float32))
        yield np.reshape(model.coef_, (1, -1)), np.ravel(model.intercept_)


def cyanure(z: np.ndarray, y: np.ndarray, tolerance: float) -> Fits:
    """Fit by quasi-Newton steps on variance-reduced gradients, as it chooses."""
    from cyanure.estimators import Classifier

    model = Classifier(
        loss="logistic" if y.max() == 1 else "multiclass-logistic",
        tol=tolerance,
        max_iter=MAX_ITER,
        warm_start=True,
        verbose=False,
    )
    for l2 in STRENGTHS:
        model.set_params(lambda_1=l2).fit(z, y)
        yield np.reshape(model.coef_.T, (-1, z.shape[1])), np.ravel(model.intercept_)


SOFTMAX: dict[tuple[str, str], Solver] = {
    ("scikit-learn", ", lbfgs"): loop,
    ("cyanure", ""): cyanure,
}
TWO_CLASSES: dict[tuple[str, str], Solver] = {
    ("scikit-learn", ", newton-cholesky"): partial(loop, solver="newton-cholesky"),
    ("glum", ""): glum,
    ("snapml", ""): snapml,
}
"""Solvers by package and kind."""


if __name__ == "__main__":
    main()
