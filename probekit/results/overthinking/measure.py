"""Overthinking and early exit of every curve of some records."""

from collections.abc import Sequence
from dataclasses import dataclass

from probekit.results.comparison.resampling import Bootstrap, Estimate
from probekit.results.overthinking.chosen_depth import ChosenDepth, choose_depth
from probekit.results.overthinking.depth_predictions import (
    CurveReport,
    depth_curves,
    read_reported,
)
from probekit.results.overthinking.early_exit import (
    TOLERANCE,
    EarlyExit,
    check_tolerance,
    measure_exits,
)
from probekit.results.overthinking.examples import ShownExample, choose_examples
from probekit.results.overthinking.shares import (
    Share,
    SharesByDepth,
    mean_of_rows,
    shares,
    shares_by_depth,
)
from probekit.results.record import Record


@dataclass(frozen=True, kw_only=True)
class Overthinking(CurveReport):
    """Overthinking of one head on one task; shares are of all rows, means over the seeds.

    Attributes:
        depths: ascending; the last is that of the whole model.
        n_sentences: sentences of the split, which the intervals are over.
        n_rows: what has a label in them.
        unit: what that is: words or texts.
        n_seeds: seeds.
        right: rows that the last depth has right.
        shares: wasteful, destructive and cumulative, and the layers wasted.
        by_depth: what each depth has right, and the earlier ones where the last is wrong.
        chosen: the one earlier depth that selection chose.
        examples: sentences to look at.
    """

    depths: tuple[int, ...]
    n_sentences: int
    n_rows: int
    unit: str
    n_seeds: int
    right: Estimate
    shares: tuple[Share, ...]
    by_depth: SharesByDepth
    chosen: ChosenDepth
    examples: tuple[ShownExample, ...] = ()


def overthinking(
    records: Sequence[Record],
    *,
    split: str | None = None,
    examples: int = 0,
    samples: int = 10_000,
    seed: int = 0,
) -> list[Overthinking]:
    """Measure overthinking from the predictions of the probes of every depth.

    Args:
        records: of ``probekit depth``, with predictions.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        examples: how many sentences to show, destructive ones first.
        samples: bootstrap samples.
        seed: of the bootstrap, of the halves of a split and of the examples.

    Raises:
        OptionError: too few samples, or a negative number of examples.
        UnknownNameError: no such split.
        RecordError: depths, predictions, probabilities or classes are missing; the message says
            which.
        MissingFileError: a side file of predictions does not exist.
    """
    bootstrap = Bootstrap(samples=samples, seed=seed)
    found = []
    for curve in depth_curves(records):
        reported, dev = read_reported(curve, split)
        (right,) = bootstrap.estimates(
            reported.groups, mean_of_rows(reported, reported.right[:, -1].mean(0)[:, None])
        )
        found.append(
            Overthinking(
                **reported.about,
                n_sentences=reported.n_sentences,
                n_rows=len(reported.scorer.gold.ids),
                unit=reported.unit,
                n_seeds=len(reported.seeds),
                right=right,
                shares=tuple(shares(reported, bootstrap)),
                by_depth=shares_by_depth(reported, bootstrap),
                chosen=choose_depth(reported, dev, bootstrap),
                examples=tuple(choose_examples(reported, examples, seed)),
            )
        )
    return found


def early_exit(
    records: Sequence[Record],
    *,
    split: str | None = None,
    tolerance: float = TOLERANCE,
    samples: int = 10_000,
    seed: int = 0,
) -> list[EarlyExit]:
    """Measure early exit from the predictions of the probes of every depth.

    Args:
        records: of ``probekit depth``.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        tolerance: loss of score against the last depth that is allowed where thresholds are chosen.
        samples: bootstrap samples.
        seed: of the bootstrap, and of the halves of a split.

    Raises:
        OptionError: too few samples, or a tolerance below 0 or above 1.
        UnknownNameError: no such split.
        RecordError: depths, predictions, probabilities or classes are missing.
        MissingFileError: a side file of predictions does not exist.
    """
    bootstrap = Bootstrap(samples=samples, seed=seed)
    check_tolerance(tolerance)
    pairs = [read_reported(curve, split) for curve in depth_curves(records)]
    return [measure_exits(*pair, bootstrap, tolerance) for pair in pairs]
