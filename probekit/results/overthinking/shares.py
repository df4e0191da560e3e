"""Overthinking: the share of rows that an earlier depth had right, after Kaya and Dumitras (2019).

"Shallow-Deep Networks: Understanding and Mitigating Network Overthinking", section 4: a network
overthinks *wastefully* where an internal classifier was right as well, and *destructively* where
one was right and the last is wrong; the *cumulative* accuracy counts what any of them has right.

Among many classifiers one is nearly always right: of 30 that guess between two classes, all are
wrong once in 2^30. So each share is held against two levels of chance, row by row.

*Chance*: as many refits of the *last* depth as there are earlier depths, each on a bootstrap
resample of train, take the place of the earlier depths, whose probes are fitted on the same
resamples. The excess is what the earlier depths have right beside the last one, beyond what another
draw of train would have told its probe. Refits of one layer err together, though, and probes of
different layers apart even where none of them knows anything, so that alone is no knowledge.

*Guessing*: each row has the earlier depths' predictions of another row, any of the split with the
same probability, which keeps how often they name each class, and how they depend on one another,
and nothing that they know of the row. Earlier depths overthought only where the share is above
both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Counts, per_example, ratio
from probekit.results.overthinking.depth_predictions import Classes, DepthPredictions, Right
from probekit.results.overthinking.estimates import Bootstrap, Estimate, Statistics

Rows = Float64[np.ndarray, "seeds rows"]

NAMES = ("wasteful", "destructive", "cumulative", "layers wasted")


@dataclass(frozen=True, kw_only=True)
class Share:
    """One kind of overthinking, as shares of all rows, means over the seeds.

    Attributes:
        name: of `NAMES`. The unit of ``layers wasted`` are layers: the last depth less the earliest
            that is right, mean over the wasteful rows.
        share: by the probes themselves.
        refitted: by the earlier depths' refits.
        chance: by refits of the last depth in their place.
        excess: ``refitted`` less ``chance``.
        guessing: by the earlier depths' refits, of another row.
        beyond_guessing: ``refitted`` less ``guessing``.
    """

    name: str
    share: Estimate
    refitted: Estimate
    chance: Estimate
    excess: Estimate
    guessing: Estimate
    beyond_guessing: Estimate


@dataclass(frozen=True, kw_only=True)
class Growing:
    """A share that grows with the depths that take part, by depth.

    Attributes:
        refitted: by the refits of the depths up to this one.
        chance: by as many refits of the last depth.
        guessing: by the refits of the depths, of another row.
    """

    refitted: Sequence[Estimate]
    chance: Sequence[Estimate]
    guessing: Sequence[Estimate]


@dataclass(frozen=True, kw_only=True)
class SharesByDepth:
    """Shares of all rows by depth, for a figure.

    Attributes:
        depths: ascending; the last is that of the whole model.
        right: the rows that the probe of a depth has right.
        cumulative: the rows that a depth up to this one has right; at the last its probe.
        destructive: the rows that the last depth has wrong and one up to this right, without the
            last.
    """

    depths: tuple[int, ...]
    right: Sequence[Estimate]
    cumulative: Growing
    destructive: Growing


def shares(found: DepthPredictions, bootstrap: Bootstrap) -> list[Share]:
    """Return the shares of `NAMES`, with what they exceed chance by."""
    assert found.refits is not None and found.chance is not None, "read without refits"
    sides = [found.predicted[:, :-1], found.refits, found.chance]
    sums = [_sums(found, *_earlier(found, found.hits(side))) for side in sides]
    sums.append(_sums(found, *_of_another_row(found, found.refits)))

    def statistics(counts: Counts) -> Float64[np.ndarray, "samples k"]:
        own, refitted, chance, guessing = (_ratios(counts @ parts) for parts in sums)
        levels = [chance, refitted - chance, guessing, refitted - guessing]
        return np.hstack([own, refitted, *levels])

    estimates = bootstrap.estimates(found.groups, statistics)
    columns = [estimates[n : n + len(NAMES)] for n in range(0, len(estimates), len(NAMES))]
    return [
        Share(
            name=name,
            share=own,
            refitted=refitted,
            chance=chance,
            excess=excess,
            guessing=guessing,
            beyond_guessing=beyond,
        )
        for name, own, refitted, chance, excess, guessing, beyond in zip(
            NAMES, *columns, strict=True
        )
    ]


def _earlier(found: DepthPredictions, right: Right) -> tuple[Rows, Rows]:
    """Return whether some earlier depth is right, and how many layers come after the first."""
    # Depths 0, 1, 2 and 3, of which 1 is right: the earliest has place 1, and 3 - 1 = 2 layers
    # come after it.
    depths, some = np.array(found.depths), right.any(1)
    after = (depths[-1] - depths[right.argmax(1)]) * some
    return np.asarray(some, np.float64), np.asarray(after, np.float64)


def _of_another_row(found: DepthPredictions, predicted: Classes) -> tuple[Rows, Rows]:
    """Return the same where the predictions are those of any row: means by the row's class."""
    gold = found.scorer.gold.ids
    some = np.zeros((len(predicted), len(gold)))
    after = np.zeros_like(some)
    for label in np.unique(gold):
        for values, own in zip((some, after), _earlier(found, predicted == label), strict=True):
            values[:, gold == label] = own.mean(1, keepdims=True)
    return some, after


def _sums(found: DepthPredictions, some: Rows, after: Rows) -> Float64[np.ndarray, "sentences k"]:
    """Return what each sentence adds: wasteful, destructive, cumulative, wasted layers, rows."""
    last = found.right[:, -1]
    kinds = [last * some, ~last * some, last + ~last * some, last * after, np.ones_like(some)]
    rows = np.stack([kind.mean(0) for kind in kinds], axis=1)
    return per_example(rows, found.scorer.gold.offsets)


def _ratios(sums: Float64[np.ndarray, "samples parts"]) -> Float64[np.ndarray, "samples measures"]:
    """Return the shares of all rows, and the wasted layers of a wasteful row."""
    wasteful, _, _, wasted, rows = sums.T
    per_wasteful = np.divide(wasted, wasteful, out=np.zeros_like(wasted), where=wasteful > 0)
    return np.column_stack([sums[:, :3] / np.maximum(rows, 1.0)[:, None], per_wasteful])


def shares_by_depth(found: DepthPredictions, bootstrap: Bootstrap) -> SharesByDepth:
    """Return how the shares grow from depth to depth."""
    assert found.refits is not None and found.chance is not None, "read without refits"
    earlier = len(found.depths) - 1
    last = found.right[:, -1:]
    some = [
        np.logical_or.accumulate(found.hits(found.refits), axis=1),
        np.logical_or.accumulate(found.hits(found.chance), axis=1),
        np.stack([_of_another_row(found, found.refits[:, : n + 1])[0] for n in range(earlier)], 1),
    ]
    rows = [found.right]
    for up_to in some:
        destructive = ~last * up_to
        rows += [destructive + last * up_to, destructive[:, -1:] + last, destructive]
    stacked = np.concatenate(rows, axis=1).mean(0).T  # rows, statistics
    estimates = bootstrap.estimates(found.groups, mean_of_rows(found, stacked))
    # The depths 0 to 3 are 4 numbers; each level then has 3 + 1 cumulative ones and 3 destructive.
    each = 2 * earlier + 1
    levels = [estimates[earlier + 1 + n * each :][:each] for n in range(3)]
    return SharesByDepth(
        depths=found.depths,
        right=estimates[: earlier + 1],
        cumulative=_growing([one[: earlier + 1] for one in levels]),
        destructive=_growing([one[earlier + 1 :] for one in levels]),
    )


def _growing(levels: Sequence[Sequence[Estimate]]) -> Growing:
    refitted, chance, guessing = levels
    return Growing(refitted=refitted, chance=chance, guessing=guessing)


def mean_of_rows(found: DepthPredictions, rows: Float64[np.ndarray, "rows k"]) -> Statistics:
    """Return the statistics that are means of numbers of each row."""
    offsets = found.scorer.gold.offsets
    values, sizes = per_example(rows, offsets), np.diff(offsets).astype(np.float64)
    return lambda counts: ratio(counts @ values, (counts @ sizes)[:, None])
