"""Overthinking of every curve of some records, and of the one depth that was chosen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from probekit.base.numbers import numpy_generator
from probekit.metrics.contract import Counts
from probekit.results.comparison.resampling import Bootstrap, Estimate, Groups
from probekit.results.overthinking.depth_predictions import (
    CurveReport,
    DepthPredictions,
    depth_curves,
    read_reported,
)
from probekit.results.overthinking.shares import (
    Share,
    SharesByDepth,
    expected_of,
    mean_of_rows,
    shares,
    shares_by_depth,
)
from probekit.results.record import Record
from probekit.results.summaries.typeset import Column, text_table

_LEAST_P = 1e-16

_LEGEND = (
    "expected: the share that the last depth's own calibrated probabilities predict; excess: "
    "measured\nless expected; * a significant excess (Holm over the depths); layers wasted: per "
    "wasteful row,\nnot a share;"
)

Mask = Bool[np.ndarray, " sentences"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Chooser:
    """Sentences that choose, and those that they choose for.

    Attributes:
        on: predictions that choose.
        choosing: which of their sentences do, as how often each is counted: 0 or 1.
        judged: which sentences of the reported split they choose for.
    """

    on: DepthPredictions
    choosing: Float64[np.ndarray, "1 sentences"]
    judged: Mask


def choosers(
    reported: DepthPredictions, dev: DepthPredictions | None, seed: int
) -> tuple[Chooser, ...]:
    """Return what chooses for each sentence of a split: each sentence is judged once.

    Args:
        reported: the split.
        dev: the split that chooses; None chooses on each half of the reported one for the other.
        seed: of the halves.
    """
    if dev is not None:
        every = np.ones(reported.n_sentences, bool)
        return (Chooser(on=dev, choosing=np.ones((1, dev.n_sentences)), judged=every),)
    first, second = halves(reported.groups, seed)
    return tuple(
        Chooser(on=reported, choosing=choosing[None].astype(np.float64), judged=judged)
        for judged, choosing in ((first, second), (second, first))
    )


def chosen_on(dev: DepthPredictions | None) -> str:
    """Return the name of the split that chooses, or ``halves``."""
    return "halves" if dev is None else dev.split


def halves(groups: Groups, seed: int) -> tuple[Mask, Mask]:
    """Return two halves of a split's sentences, which the seed alone decides; none cuts a group."""
    n = groups.drawn.n
    chosen = np.zeros((1, n))
    chosen[0, numpy_generator(seed, "halves", n).permutation(n)[: (n + 1) // 2]] = 1
    first = groups.counts(chosen)[0] > 0
    return first, ~first


@dataclass(frozen=True, kw_only=True)
class ChosenDepth:
    """One earlier depth in place of the last; shares of all rows, means over the seeds.

    Attributes:
        depths: the depth that was chosen; of a split in halves that of each half, each chosen by
            its score on the other half.
        chosen_on: the split that chose, or ``halves`` of the reported one.
        repairs: rows that the last depth has wrong and the chosen one right.
        breaks: rows that the last depth has right and the chosen one wrong.
        net: ``repairs`` less ``breaks``: the gain in accuracy.
        expected: repairs that the last depth's calibrated probabilities give to what the chosen
            one names.
        excess: ``repairs`` less ``expected``: what it knows and the last depth does not.
        counts: by seed, how many rows it repairs and breaks.
        p: by seed, McNemar's exact test of these two counts, which takes rows as independent; the
            words of a sentence are not, and the interval of ``net`` minds that. Empty where
            sentences come in groups, which it knows nothing of.
    """

    depths: tuple[int, ...]
    chosen_on: str
    repairs: Estimate
    breaks: Estimate
    net: Estimate
    expected: Estimate
    excess: Estimate
    counts: tuple[tuple[int, int], ...]
    p: tuple[float, ...]


def _choose_depth(
    reported: DepthPredictions, dev: DepthPredictions | None, bootstrap: Bootstrap
) -> ChosenDepth:
    """Choose the earlier depth with the best score, and hold it against the last one.

    Args:
        reported: the split that is reported.
        dev: the split that chooses; None chooses on each half of the reported one for the other.
        bootstrap: how sentences are resampled; its seed makes the halves.
    """
    places = np.zeros(reported.n_sentences, np.int64)  # of the depth in place of the last one
    for chooser in choosers(reported, dev, bootstrap.seed):
        places[chooser.judged] = best_place(chooser.on, chooser.choosing)
    owners = np.repeat(np.arange(reported.n_sentences), reported.lengths)
    right = reported.right
    # chosen[s, r] = right[s, places[owners[r]], r]
    chosen = right[:, places[owners], np.arange(right.shape[2])]
    repairs, breaks = chosen & ~right[:, -1], right[:, -1] & ~chosen
    expected = expected_of(reported).of_each[:, places[owners], np.arange(right.shape[2])]
    shares = [repairs.mean(0), breaks.mean(0), expected.mean(0)]
    rows = np.stack([*shares, shares[0] - shares[1], shares[0] - shares[2]], axis=1)
    estimates = bootstrap.estimates(reported.groups, mean_of_rows(reported, rows))
    counts = [(int(a), int(b)) for a, b in zip(repairs.sum(1), breaks.sum(1), strict=True)]
    used = [reported.depths[index] for index in dict.fromkeys(places.tolist())]
    return ChosenDepth(
        depths=tuple(used),
        chosen_on=chosen_on(dev),
        repairs=estimates[0],
        breaks=estimates[1],
        net=estimates[3],
        expected=estimates[2],
        excess=estimates[4],
        counts=tuple(counts),
        p=() if reported.groups.whole is not None else tuple(mcnemar(*pair) for pair in counts),
    )


def best_place(probes: DepthPredictions, counts: Counts) -> int:
    """Return the place of the earlier depth with the best score; of equals the first."""
    scores: Float64[np.ndarray, " depths"] = probes.scores(counts)[0, :-1]
    return int(np.argmax(probes.scorer.scale.sign * scores))


def mcnemar(repairs: int, breaks: int) -> float:
    """Return the two-sided p of McNemar's exact test (McNemar 1947).

    Under the null a row on which the two differ is as likely repaired as broken, so that the
    smaller count is below half of both by the binomial distribution B(repairs + breaks, 1/2).
    """
    from scipy.stats import binom  # slow to import

    both = repairs + breaks
    return min(1.0, 2 * float(binom.cdf(min(repairs, breaks), both, 0.5))) if both else 1.0


@dataclass(frozen=True, kw_only=True)
class Overthinking(CurveReport):
    """Overthinking of one head on one task; shares are of all rows, means over the seeds.

    Attributes:
        n_rows: what has a label in them.
        unit: what that is: words or texts.
        right: rows that the last depth has right.
        shares: wasteful, destructive and cumulative, and the layers wasted.
        by_depth: what each depth has right, and the earlier ones where the last is wrong.
        chosen: the one earlier depth that selection chose.
    """

    n_rows: int
    unit: str
    right: Estimate
    shares: tuple[Share, ...]
    by_depth: SharesByDepth
    chosen: ChosenDepth


def overthinking(
    records: Sequence[Record],
    *,
    split: str | None = None,
    samples: int = 10_000,
    seed: int = 0,
) -> list[Overthinking]:
    """Measure overthinking from the predictions of the probes of every depth.

    Args:
        records: of ``probekit depth``, with predictions.
        split: ``test`` or ``dev``; None is test where all have one, else dev.
        samples: bootstrap samples.
        seed: of the bootstrap, and of the halves of a split.

    Raises:
        OptionError: too few samples.
        UnknownNameError: no such split.
        RecordError: depths, predictions, probabilities or classes are missing; the message says
            which.
        MissingFileError: a side file of predictions does not exist.
    """
    bootstrap = Bootstrap(samples=samples, seed=seed)
    measured = []
    for curve in depth_curves(records):
        reported, dev = read_reported(curve, split)
        (right,) = bootstrap.estimates(
            reported.groups, mean_of_rows(reported, reported.right[:, -1].mean(0)[:, None])
        )
        measured.append(
            Overthinking(
                **reported.about,
                n_rows=len(reported.scorer.gold.ids),
                unit=reported.unit,
                right=right,
                shares=tuple(shares(reported, bootstrap)),
                by_depth=shares_by_depth(reported, bootstrap),
                chosen=_choose_depth(reported, dev, bootstrap),
            )
        )
    return measured


def overthinking_text(measured: Sequence[Overthinking]) -> str:
    """Return the tables of shares, and what follows from them."""
    return "\n".join(map(_shares_text, measured))


def _shares_text(measured: Overthinking) -> str:
    kinds = measured.shares
    shares = [share.share.text(1.0 if share.name == "layers wasted" else 100.0) for share in kinds]
    columns = [
        Column("", ["right at the last depth", *(share.name for share in kinds)], words=True),
        Column(f"% of {measured.unit}", [measured.right.text(100), *shares]),
        Column("expected", ["", *(_percent(share.expected) for share in kinds)]),
        Column("excess", ["", *(_signed(share.excess) for share in kinds)]),
    ]
    right = measured.right.value
    wasteful, destructive = (share.share.value for share in kinds[:2])
    parts = [
        f"{share / of:.0%} of the rows that the last depth has {what} were right at an earlier one"
        for share, of, what in ((wasteful, right, "right"), (destructive, 1 - right, "wrong"))
        if of > 0
    ]
    lines = [measured.title, "", text_table(columns), *parts, ""]
    lines += [_depths_table(measured), *_chosen_texts(measured.chosen), "", _LEGEND]
    return "\n".join([*lines, measured.intervals_text, ""])


def _depths_table(measured: Overthinking) -> str:
    """Return a line per depth: what it has right, and where the last one is wrong."""
    by_depth = measured.by_depth
    earlier = by_depth.earlier
    columns = [
        Column("depth", [f"{depth}" for depth in by_depth.depths]),
        Column(f"% of {measured.unit} right", [estimate.text(100) for estimate in by_depth.right]),
        Column(
            "% right where the last is wrong", [*(depth.right.text(100) for depth in earlier), ""]
        ),
        Column("expected", [*(_percent(depth.expected) for depth in earlier), ""]),
        Column("excess", [*(_signed(depth.excess) + "*" * depth.knows for depth in earlier), ""]),
    ]
    gold = _percent(by_depth.gold)
    return (
        f"{text_table(columns)}\na random draw from the last depth's probabilities is right there "
        f"in {gold} %"
    )


def _percent(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.value * 100:z.1f}"


def _signed(estimate: Estimate | None) -> str:
    return "" if estimate is None else estimate.text(100, signed=True)


def _chosen_texts(chosen: ChosenDepth) -> list[str]:
    """Return what one earlier depth repairs and breaks, and how sure its net gain is.

    That is McNemar's p, or that of the bootstrap where sentences come in groups.
    """
    depths = " and ".join(map(str, chosen.depths))
    how = f"chosen on {chosen.chosen_on}"
    if chosen.chosen_on == "halves":
        how = "each half of the sentences uses the depth that the other half chose"
    tested = chosen.p or (chosen.net.p,)
    ends = [
        f"{p:.2g}" if p >= _LEAST_P else f"below {_LEAST_P:g}" for p in (min(tested), max(tested))
    ]
    p = ends[0] if ends[0] == ends[1] else f"{' to '.join(ends)} over the seeds"
    significance = f"McNemar's exact p = {p}" if chosen.p else f"p = {p} (bootstrap)"
    return [
        f"one earlier depth in place of the last: {depths} ({how})",
        f"  repairs {chosen.repairs.text(100)} %, breaks {chosen.breaks.text(100)} %, net "
        f"{_signed(chosen.net)} %; {significance}",
        f"  repairs expected by the last depth's own probabilities {_percent(chosen.expected)} %, "
        f"excess {_signed(chosen.excess)} %",
    ]
