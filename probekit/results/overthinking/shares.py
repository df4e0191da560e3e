"""Overthinking: the share of rows that an earlier depth had right, after Kaya and Dumitras (2019).

"Shallow-Deep Networks: Understanding and Mitigating Network Overthinking", section 4: a network
overthinks *wastefully* where an internal classifier was right as well, and *destructively* where
one was right and the last is wrong; the *cumulative* accuracy counts what any of them has right.

Among many classifiers one is nearly always right: of 30 that guess between two classes, all are
wrong once in 2^30. So each share is held against chance: as many refits of the *last* depth as
there are earlier depths, each on a bootstrap resample of train, take the place of the earlier
depths, whose probes are fitted on the same resamples. The excess is the difference of the two, row
by row. It says how much more the earlier depths know *beside* the last one than a second draw of
train would have told its probe. Probes of different layers err more independently than refits of
one do even where neither layer knows anything, so an excess of the cumulative share alone is no
knowledge yet: whether one earlier depth is better is asked by `chosen_depth`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from probekit.metrics.contract import Counts, per_example, ratio
from probekit.results.overthinking.depth_predictions import DepthPredictions, Right
from probekit.results.overthinking.estimates import Bootstrap, Estimate, Statistics

MEASURES = ("wasteful", "destructive", "cumulative")


@dataclass(frozen=True, kw_only=True)
class Share:
    """One kind of overthinking, as shares of all rows, means over the seeds.

    Attributes:
        name: of `MEASURES`, or ``layers wasted``, whose unit are layers: the last depth less the
            earliest that is right, mean over the wasteful rows.
        share: by the probes themselves.
        refitted: by the earlier depths' refits.
        chance: by refits of the last depth in their place.
        excess: ``refitted`` less ``chance``.
    """

    name: str
    share: Estimate
    refitted: Estimate
    chance: Estimate
    excess: Estimate


@dataclass(frozen=True, kw_only=True)
class SharesByDepth:
    """Shares of all rows that grow with the depths that take part, for a figure.

    Attributes:
        depths: ascending; the last is that of the whole model.
        right: by depth, the rows that its probe has right.
        cumulative: the rows that a refit up to this depth has right (at the last, its probe).
        destructive: the rows that the last depth has wrong and a refit up to this depth right;
            without the last depth.
        cumulative_chance: the same with as many refits of the last depth.
        destructive_chance: likewise.
    """

    depths: tuple[int, ...]
    right: Sequence[Estimate]
    cumulative: Sequence[Estimate]
    destructive: Sequence[Estimate]
    cumulative_chance: Sequence[Estimate]
    destructive_chance: Sequence[Estimate]


def shares(found: DepthPredictions, bootstrap: Bootstrap) -> list[Share]:
    """Return the shares of `MEASURES` and the layers wasted, with what they exceed chance by."""
    assert found.refits is not None and found.chance is not None, "read without refits"
    right = found.right
    last, depths = right[:, -1], np.array(found.depths)
    sides = [right[:, :-1], found.hits(found.refits), found.hits(found.chance)]
    sums = np.stack([_sums(found, last, side, depths) for side in sides])  # side, sentence, part

    def statistics(counts: Counts) -> Float64[np.ndarray, "samples k"]:
        own, refitted, chance = (_ratios(counts @ parts) for parts in sums)
        return np.hstack([own, refitted, chance, refitted - chance])

    estimates = bootstrap.estimates(found.n_sentences, statistics)
    names = (*MEASURES, "layers wasted")
    columns = [estimates[n : n + len(names)] for n in range(0, len(estimates), len(names))]
    return [
        Share(name=name, share=own, refitted=refitted, chance=chance, excess=excess)
        for name, own, refitted, chance, excess in zip(names, *columns, strict=True)
    ]


def _sums(
    found: DepthPredictions, last: Right, earlier: Right, depths: np.ndarray
) -> Float64[np.ndarray, "sentences parts"]:
    """Return what each sentence adds: wasteful, destructive, cumulative, wasted layers, rows."""
    # Depths 0, 1, 2 and 3 of a row that is right at 1 and 3: it is wasteful, the earliest right
    # depth has place 1, and 3 - 1 = 2 layers are wasted.
    some = earlier.any(1)
    wasted = (depths[-1] - depths[earlier.argmax(1)]) * (last & some)
    kinds = [last & some, ~last & some, last | some, wasted, np.ones_like(last)]
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
    right = found.right
    last = right[:, -1:]
    groups = [right]
    for side in (found.hits(found.refits), found.hits(found.chance)):
        up_to = np.logical_or.accumulate(side, axis=1)
        every = np.concatenate([up_to, up_to[:, -1:] | last], axis=1)
        groups += [every, up_to & ~last]
    sizes = np.cumsum([group.shape[1] for group in groups])[:-1]
    stacked = np.concatenate(groups, axis=1).mean(0).T  # rows, statistics
    estimates = bootstrap.estimates(found.n_sentences, mean_of_rows(found, stacked))
    own, cumulative, destructive, by_chance, broken = (
        [estimates[n] for n in part] for part in np.split(np.arange(len(estimates)), sizes)
    )
    return SharesByDepth(
        depths=found.depths,
        right=own,
        cumulative=cumulative,
        destructive=destructive,
        cumulative_chance=by_chance,
        destructive_chance=broken,
    )


def mean_of_rows(found: DepthPredictions, rows: Float64[np.ndarray, "rows k"]) -> Statistics:
    """Return the statistics that are means of numbers of each row."""
    offsets = found.scorer.gold.offsets
    values, sizes = per_example(rows, offsets), np.diff(offsets).astype(np.float64)
    return lambda counts: ratio(counts @ values, (counts @ sizes)[:, None])
