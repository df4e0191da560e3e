"""How often the interval over seeds and sentences holds the truth, in simulated experiments.

Two heads with 3, 5 and 10 seeds on 277, 872 and 3,250 rows. A row e is right for a seed s with the
probability Phi(mu + seed_s + row_e), so that rows differ in how hard they are, seeds in how good,
and what is left is the interaction of both. The two heads share the rows and have seeds of their
own. The true score is that of infinitely many seeds and rows, by quadrature. In a second table rows
come in documents, some of which are easier for one head than for the other.

    python analyses/interval_coverage.py            # minutes on one core, no model, no data
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr

from probekit.results.comparison.resampling import Groups, crossed
from probekit.results.summaries.interval import CONFIDENCE, interval

NAME = "interval_coverage"
SEEDS = (3, 5, 10)
ROWS = (277, 872, 3250)
RATIOS = (0.0, 0.25, 1.0, 4.0, 16.0)
"""Variance of a score over seeds, in variances of one seed's accuracy over draws of rows."""
EXPERIMENTS = 2000

POSITIVE = 0.35
MEANS = {"a": {0: 1.0, 1: 0.6}, "b": {0: 0.9, 1: 0.3}}
"""mu of each head, by gold class."""
HARDNESS = 1.0
"""Deviation of row_e."""

DOCUMENTS = (20, 60, 230)
"""CoNLL-2003's test has 231."""
DOCUMENT_ROWS = 15
"""Rows of a document, on average."""
EASE = 0.45
"""Deviation of what a document is easier for one head."""

INTRODUCTION = """\
Share of {experiments:,} simulated experiments whose nominal {confidence:.0f} % interval holds the
truth, in percent; the standard error of a cell is at most {error:.1f} points. *Ratio* is the
variance of a score over seeds, in variances of one seed's accuracy over draws of rows: 0 is a
solver on all of train, 16 are seeds that lie four times as far apart as draws of rows. *Score* is
the mean over the seeds of one head, *difference* that of two heads on the same rows. Beside them
are the two intervals that know one source alone, for the difference of accuracies: Student's t
over seeds, which takes the rows for the only ones, and rows alone, which takes the trained heads
for the only ones."""

OF_DOCUMENTS = f"""\
The same share for differences of accuracy where rows come in documents of {DOCUMENT_ROWS} on
average: intervals over whole documents, which are made wherever documents are known, and over
single rows. With three or more seeds they are over seeds, too. *Ratio* is as above."""


@dataclass(frozen=True)
class Setting:
    """How an experiment is made.

    Attributes:
        n_seeds: seeds of each head.
        n_rows: rows.
        ratio: of the variance of seeds to that of rows.
        n_documents: documents that rows come in; 0 of rows that come alone.
    """

    n_seeds: int
    n_rows: int
    ratio: float
    n_documents: int = 0

    @property
    def seed_deviation(self) -> float:
        """Deviation of seed_s for the ratio, by the slope of accuracy."""
        right = np.array([POSITIVE, 1 - POSITIVE]) @ [self.right("a", g, 0.0) for g in (1, 0)]
        step = 1e-4
        slope = np.array([POSITIVE, 1 - POSITIVE]) @ [
            (self.right("a", g, step) - self.right("a", g, -step)) / (2 * step) for g in (1, 0)
        ]
        return float(np.sqrt(self.ratio * right * (1 - right) / self.n_rows) / slope)

    def right(self, head: str, gold: int, seed: float | np.ndarray) -> np.ndarray:
        """Return how often rows of a class are right for a seed, over all rows there could be."""
        spread = np.sqrt(1 + HARDNESS**2 + (EASE**2 if self.n_documents else 0))
        return np.asarray(ndtr((MEANS[head][gold] + seed) / spread))


def truth(setting: Setting, head: str, metric: str) -> float:
    """Return the mean score of all seeds there could be on all rows there could be."""
    points, weights = np.polynomial.hermite_e.hermegauss(61)
    seeds = points * setting.seed_deviation
    hit, kept = (
        share * setting.right(head, gold, seeds)
        for gold, share in ((1, POSITIVE), (0, 1 - POSITIVE))
    )
    if metric == "accuracy":
        scores = hit + kept
    else:  # F1: false positives are the negatives that are wrong
        scores = 2 * hit / (hit + POSITIVE + (1 - POSITIVE) - kept)
    return float(scores @ weights / weights.sum())


def predictions(
    setting: Setting, random: np.random.Generator
) -> tuple[np.ndarray, dict[str, np.ndarray], Groups]:
    """Draw rows, documents and seeds, and return which rows are positive.

    Returns:
        What is so, of each row, what each seed of both heads says, shape (seeds, rows), and the
        documents of the rows.
    """
    n = setting.n_rows
    gold = random.random(n) < POSITIVE
    hardness = random.normal(0, HARDNESS, n)
    groups, ease, found = Groups(n), np.zeros(n), {}
    if setting.n_documents:
        documents = np.sort(random.integers(0, setting.n_documents, n))
        groups = Groups(n, np.unique(documents, return_inverse=True)[1], "document")
    for head, means in MEANS.items():
        if groups.numbers is not None:
            ease = random.normal(0, EASE, groups.drawn.n)[groups.numbers]
        level = np.where(gold, means[1], means[0]) + hardness + ease
        seeds = random.normal(0, setting.seed_deviation, setting.n_seeds)
        right = random.random((setting.n_seeds, n)) < ndtr(level + seeds[:, None])
        found[head] = right == gold
    return gold, found, groups


def scored(metric: str, gold: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the score of each seed and its pseudo-values, of all seeds at once.

    They are those of `pseudo_values`, which takes seed after seed and ten times as long.
    """
    n = len(gold)
    if metric == "accuracy":
        right = (found == gold).astype(np.float64)
        return right.mean(axis=1), right
    hits = (found & gold).astype(np.float64)
    below = gold + found.astype(np.float64)  # F1 is 2 hits / (gold + found positives)
    all_hits, all_below = hits.sum(axis=1, keepdims=True), below.sum(axis=1, keepdims=True)
    scores = 2 * all_hits / all_below
    return scores[:, 0], n * scores - (n - 1) * 2 * (all_hits - hits) / (all_below - below)


def experiment(setting: Setting, random: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Return the intervals of one experiment, by metric and what they are of."""
    gold, found, groups = predictions(setting, random)
    if groups.numbers is not None:
        return over_documents(gold, found, groups)
    intervals = {}
    for metric in ("accuracy", "f1"):
        (scores, values), (others, their_values) = (
            scored(metric, gold, found[head]) for head in ("a", "b")
        )
        differences, apart = scores - others, values - their_values
        one, both = crossed(scores.tolist(), values), crossed(differences.tolist(), apart)
        intervals |= {
            f"{metric}, score": (one.low, one.high),
            f"{metric}, difference": (both.low, both.high),
        }
        if metric == "accuracy":
            seeds = interval(differences.tolist())
            rows = crossed([both.mean], apart.mean(axis=0, keepdims=True))
            intervals |= {
                "seeds alone": (seeds.low, seeds.high),
                "rows alone": (rows.low, rows.high),
            }
    return intervals


def over_documents(
    gold: np.ndarray, found: dict[str, np.ndarray], groups: Groups
) -> dict[str, tuple[float, float]]:
    """Return the intervals of a difference of accuracies, over documents and over rows."""
    apart = (found["a"] == gold).astype(float) - (found["b"] == gold)
    differences = apart.mean(axis=1)
    sums = np.stack([np.bincount(groups.numbers, one) for one in apart])
    n, sizes = len(gold), np.bincount(groups.numbers)
    without = (apart.sum(axis=1, keepdims=True) - sums) / (n - sizes)
    pseudo = len(sizes) * differences[:, None] - (len(sizes) - 1) * without
    every = {
        "over documents": crossed(differences.tolist(), pseudo, groups.drawn),
        "over rows": crossed(differences.tolist(), apart),
    }
    return {name: (one.low, one.high) for name, one in every.items()}


def coverage(setting: Setting, experiments: int, seed: int) -> dict[str, float]:
    """Return the share of experiments whose interval holds the truth, by what it is of."""
    drawn = [setting.n_seeds, setting.n_rows, int(setting.ratio * 4)]
    random = np.random.default_rng(
        [seed, *drawn, *[setting.n_documents] * bool(setting.n_documents)]
    )
    true = {
        (metric, head): truth(setting, head, metric)
        for metric in ("accuracy", "f1")
        for head in MEANS
    }
    held: dict[str, int] = {}
    for _ in range(experiments):
        for name, (low, high) in experiment(setting, random).items():
            metric = "f1" if name.startswith("f1") else "accuracy"
            expected = true[metric, "a"]
            if not name.endswith("score"):
                expected -= true[metric, "b"]
            held[name] = held.get(name, 0) + (low <= expected <= high)
    return {name: count / experiments for name, count in held.items()}


def settings(
    seeds: Iterable[int] = SEEDS, rows: Iterable[int] = ROWS, ratios: Iterable[float] = RATIOS
) -> Iterator[Setting]:
    """Yield every combination."""
    rows, ratios = list(rows), list(ratios)
    yield from (Setting(s, n, ratio) for s in seeds for n in rows for ratio in ratios)


def main() -> None:
    """Simulate, and write the table."""
    from shared import markdown, write  # imports torch, which a simulation has no need of

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    n, cells = args.experiments, list(settings())
    cells += [
        Setting(seeds, DOCUMENT_ROWS * documents, ratio, documents)
        for seeds, ratio in ((1, 0.0), (3, 1.0), (5, 1.0))
        for documents in DOCUMENTS
    ]
    with ProcessPoolExecutor(args.workers) as pool:
        shares = pool.map(partial(coverage, experiments=n, seed=0), cells)
        found = dict(zip(cells, shares, strict=True))
    of_documents = {one: found.pop(one) for one in cells if one.n_documents}
    names = list(next(iter(found.values())))
    ours = [name for name in names if not name.endswith("alone")]
    others = [name for name in names if name.endswith("alone")]
    lines = [
        [str(one.n_seeds), f"{one.n_rows:,}", f"{one.ratio:g}"]
        + [f"{100 * own[name]:.1f}" for name in (*ours, *others)]
        for one, own in found.items()
    ]
    introduction = INTRODUCTION.format(
        experiments=n, confidence=100 * CONFIDENCE, error=100 * np.sqrt(0.93 * 0.07 / n)
    )
    header = ["seeds", "rows", "ratio", *ours, *others]
    table = markdown(header, lines, words=0)
    write(
        NAME,
        [
            "# Coverage of the interval over seeds and sentences",
            introduction,
            _range(found, ours),
            table,
            "## Documents",
            OF_DOCUMENTS,
            documents_table(of_documents),
        ],
    )


def documents_table(found: dict[Setting, dict[str, float]]) -> str:
    """Return the coverage of intervals over documents and over rows."""
    from shared import markdown

    lines = [
        [str(one.n_seeds), str(one.n_documents), f"{one.ratio:g}"]
        + [f"{100 * share:.1f}" for share in own.values()]
        for one, own in found.items()
    ]
    header = ["seeds", "documents", "ratio", *next(iter(found.values()))]
    return markdown(header, lines, words=0)


def _range(found: dict[Setting, dict[str, float]], names: Sequence[str]) -> str:
    shares = [own[name] for own in found.values() for name in names]
    return (
        f"The interval over both covers {100 * min(shares):.1f} to {100 * max(shares):.1f} %; "
        "it is above 95 % where few seeds differ by little but chance of rows."
    )


if __name__ == "__main__":
    main()
