"""What a run reads: its splits, and the rows that it is fitted and scored on."""

from functools import lru_cache

import numpy as np
from jaxtyping import Int64

from probekit.base.selection import HELD_OUT
from probekit.features import FeatureView, Location, Splits, open_features
from probekit.features.duplicates import count_copies
from probekit.features.sentence_groups import PHRASES
from probekit.probe.fitters import solves
from probekit.train.sampling import count_classes, draw, held_out, hold_out
from probekit.train.sweeps.fitting import saved_classes
from probekit.train.sweeps.run_options import Data
from probekit.train.sweeps.specs import TrainSpec

Opened = tuple[Data, tuple[str, ...]]
"""What decides which splits a run opens: its data, and the classes of the head it goes on from."""


def opened_by(spec: TrainSpec) -> Opened:
    """Return what decides which splits a run opens.

    Raises:
        MissingFileError: no saved head lies where the run should go on from one.
        RecordError: it is damaged.
    """
    return spec.of(Data), saved_classes(spec)


def open_splits(spec: TrainSpec, location: Location | None) -> Splits:
    """Open the features that a run reads, with the labels of the saved head that it goes on from.

    Raises:
        MissingFileError: no saved head lies where the run should go on from one.
        RecordError: it is damaged.
        EntryNotFoundError: the cache does not hold the features.
        DataError: labels are missing, or do not fit.
    """
    return open_features(location=location, classes=saved_classes(spec), **vars(spec.of(Data)))


@lru_cache(maxsize=2)
def open_once(sweep: str, opened: Opened, location: Location) -> Splits:
    """Open splits, and keep the last two, for one sweep: the next sees labels that changed."""
    data, classes = opened
    return open_features(location=location, classes=classes, **vars(data))


@lru_cache(maxsize=2)
def train_view(splits: Splits, pooling: str | None) -> FeatureView:
    """Return the rows of train that take part in training; kept for the runs of a sweep."""
    return splits.view("train", pooling=pooling, valid_only=True)


def sample(spec: TrainSpec, splits: Splits) -> Int64[np.ndarray, " drawn"]:
    """Return the positions of the train sentences that a run sees, ascending.

    Raises:
        OptionError: more shots than there are sentences.
    """
    # Of train sentences 0..5 the third has no labels, and --hold-out keeps 0 and 4: the pool is
    # 1, 3, 5. Drawn are places in it: 0 and 2 are the sentences 1 and 5.
    pool, _ = part(spec, splits)
    drawn = draw(
        len(pool),
        n_classes=count_classes(splits.train_classes.names),
        shots=spec.shots,
        fraction=spec.fraction,
        seed=spec.seed,
    )
    return pool[drawn]


def fitted_and_judging(
    spec: TrainSpec, splits: Splits, drawn: Int64[np.ndarray, " drawn"]
) -> tuple[Int64[np.ndarray, " fitted"], Int64[np.ndarray, " judging"] | None]:
    """Return the drawn positions to fit on, and those that choose a checkpoint, if some do.

    A solver fits on all of them in the end, and makes its own parts.
    """
    # hold-out:0.25 of the drawn sentences 1, 5, 8, 9 holds one place out, say 2: fitted on are
    # 1, 5 and 9, and 8 judges
    select, fitted, judging = spec.selection, drawn, None
    if not solves(spec.fit) and select is not None and select.kind == "hold-out":
        groups = splits.example_groups("train")
        held = held_out(len(drawn), select.share, None if groups is None else groups[drawn])
        fitted, judging = np.delete(drawn, held), drawn[held]
    return fitted, judging


def part(
    spec: TrainSpec, splits: Splits
) -> tuple[Int64[np.ndarray, " kept"], Int64[np.ndarray, " held"]]:
    """Return the positions of train that can be drawn, and those that are held out."""
    pool = splits.drawable
    if spec.hold_out is None:
        return pool, pool[:0]
    groups = splits.example_groups("train")
    kept, held = hold_out(len(pool), spec.hold_out, None if groups is None else groups[pool])
    return pool[kept], pool[held]


def count_units(splits: Splits, split: str, examples: Int64[np.ndarray, " examples"]) -> int:
    """Return how many units some examples of a split are, of which parts are made.

    These are groups where there are any, else the examples.
    """
    groups = splits.example_groups(split)
    return len(examples) if groups is None else len(np.unique(groups[examples]))


def scored_views(spec: TrainSpec, splits: Splits) -> dict[str, FeatureView]:
    """Return what a run is scored on: dev, what is held out beside it, and all other splits.

    Where there is no dev split, what is held out is dev.
    """
    names = [split for split in splits.labels if split != "train"]
    views = {split: splits.view(split, pooling=spec.pooling) for split in names}
    if spec.hold_out is not None:
        held = splits.view("train", pooling=spec.pooling).take(part(spec, splits)[1])
        views[HELD_OUT if "dev" in views else "dev"] = held
    return views


def count_duplicates(
    spec: TrainSpec, splits: Splits, drawn: Int64[np.ndarray, " drawn"]
) -> dict[str, dict[str, dict[str, int]]]:
    """Return how many texts of each scored split are among those drawn, and those that choose.

    Args:
        spec: a settled run.
        splits: its data.
        drawn: the train sentences that it sees, of which some may choose.

    Returns:
        By scored split, then by ``train`` or the split that chooses: `count_copies`. Where drawn
        sentences choose, ``train`` is among the scored ones: its texts that occur twice.
    """
    select = spec.selection
    scored = {split: splits.wordings(split) for split in splits.labels if split != "train"}
    if spec.hold_out is not None:
        held = splits.wordings("train", part(spec, splits)[1])
        scored[HELD_OUT if "dev" in scored else "dev"] = held
    seen = {"train": splits.wordings("train", drawn)}
    if select is not None and select.by_split:
        chooser = HELD_OUT if select.kind == HELD_OUT else "dev"
        seen[chooser] = scored[chooser]
    elif select is not None and not (spec.drop_duplicates or spec.group == PHRASES):
        scored["train"] = seen["train"]  # else groups keep equal texts together
    return {
        split: {
            other: count_copies(texts, among, again=split == other)
            for other, among in seen.items()
            if split != other or split == "train"
        }
        for split, texts in scored.items()
    }
