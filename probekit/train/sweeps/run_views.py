"""What a run reads: its splits, its rows, and the saved head that it starts from."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64
from torch import Tensor

from probekit.base.fingerprint import digest, digest_file
from probekit.base.notices import warn_once
from probekit.base.selection import HELD_OUT
from probekit.errors import OptionError
from probekit.features import FeatureView, Location, Splits, open_features, settled_array
from probekit.features.duplicates import count_copies
from probekit.features.sentence_groups import PHRASES
from probekit.probe.decoders import DecoderSpec
from probekit.probe.fitters import solves
from probekit.probe.heads import head_from_json
from probekit.probe.heads.contract import HeadSpec
from probekit.probe.model_parts import differing_entries
from probekit.train.sampling import count_classes, draw, held_out, hold_out
from probekit.train.saved.folder import CONFIG, WEIGHTS, SavedHead, read_saved
from probekit.train.sweeps.run_options import Data, Start
from probekit.train.sweeps.specs import TrainSpec
from probekit.tuning import method_of

logger = logging.getLogger(__name__)

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


def count_units(splits: Splits, drawn: Int64[np.ndarray, " drawn"]) -> int:
    """Return how many units some train sentences are, of which parts are made.

    These are groups where there are any, else the sentences.
    """
    groups = splits.example_groups("train")
    return len(drawn) if groups is None else len(np.unique(groups[drawn]))


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


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedStart:
    """What a run takes from a saved head; all is None of a fresh start.

    Attributes:
        name: what it was trained on, a fingerprint of its options except the seed, so that runs
            over several seeds are one row of a table, and ``with decoder`` of a continued run; or
            ``solved``.
        fingerprint: sha256 over its tensors; of a start that is to be solved, the key of the run
            that solves it.
        state: the tensors that are taken: ``head.*``; of a continued run also ``decoder.*`` and
            ``normalization.*``.
    """

    name: str | None = None
    fingerprint: str | None = None
    state: Mapping[str, Tensor] | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Probed:
    """The data that the options of a run are settled against, and what probes it.

    Attributes:
        splits: the features.
        head: the head, bound to the backbone.
        decoder: its decoder.
        layers: layers that the head reads, ascending.
        drawn: the train sentences that the run sees, as positions.
    """

    splits: Splits
    head: HeadSpec
    decoder: DecoderSpec
    layers: tuple[int, ...]
    drawn: Int64[np.ndarray, " drawn"]

    @property
    def n_values(self) -> int:
        """Rows x layers x width that are fitted on."""
        share = len(self.drawn) / len(self.splits.drawable)
        n_rows = self.splits.n_rows("train") * share
        return math.ceil(n_rows * len(self.layers) * self.splits.dim)


def open_start(spec: TrainSpec, probed: Probed) -> SavedStart:
    """Read the saved head that a run starts from, if it names one.

    Args:
        spec: with ``fusion_from`` or ``init_from``, its defaults filled in.
        probed: its head must be the saved one's, and under ``init_from`` its decoder.

    Raises:
        MissingFileError: no saved head lies there.
        RecordError: it is damaged.
        UnknownNameError: it has a plug-in that is not known here.
        OptionError: it was saved for another head, width, depth or normalisation; or,
            under ``init_from``, for other rows or another decoder, or without one of the labels
            of train, or with more than two where the metric scores two; or its model was trained
            with it.
    """
    folder = spec.fusion_from or spec.init_from
    if folder is None:
        return SavedStart()
    splits = probed.splits
    saved, tensors, fingerprint = open_saved(folder)
    option = f"--start {spec.of(Start).typed}"
    for part, (before, wanted) in _compared(spec, saved, probed).items():
        if before != wanted:
            raise OptionError(
                f"{option}: saved with {part} {_typed(before)}, but this run has "
                f"{_typed(wanted)}. Give the same options as the run that saved it."
            )
    if spec.init_from is not None:
        _check_start_labels(folder, saved.labels, splits)
    same = saved.model.get("identity") == splits.manifest.model_info.get("identity")
    method = method_of(saved.options.get("method"))
    if same and method is not None and method.trains:  # these rows are of the model before that
        raise OptionError(
            f"{option}: this head was trained together with its model (--method {method.name}), "
            "and no run can start from such a head. Give a head that was trained on frozen rows."
        )
    if not same:
        other = str(saved.model.get("name", "unknown"))
        message = "%s was trained on another backbone (%s) of the same shape."
        warn_once(logger, message, folder, other)
    # "conll ner 1f0c9a3e" of a head that was saved for each of some seeds
    options = {name: value for name, value in saved.options.items() if name != "seed"}
    if options.get("start") is not None:  # that one may be of this seed as well: its name is not
        options |= {"start": saved.init, "fusion_from": None, "init_from": None}
    further = " with decoder" if spec.init_from else ""
    parts = ("head.", "decoder.", "normalization.") if spec.init_from else ("head.",)
    return SavedStart(
        name=f"{saved.task} {saved.label} {digest(options)[:8]}{further}",
        fingerprint=fingerprint,
        state={name: value for name, value in tensors.items() if name.startswith(parts)},
    )


def _compared(
    spec: TrainSpec, saved: SavedHead, probed: Probed
) -> dict[str, tuple[object, object]]:
    """Return what a saved head has, and what a run has that starts from it, by part."""
    splits, head = probed.splits, probed.head
    before, after = (one.get("config") or {} for one in (saved.head, head.to_json()))
    names = differing_entries(before, after)
    token_head = splits.token_head
    compared: dict[str, tuple[object, object]] = {
        # settings that came after a head was saved have their default
        "head": (_alone(head_from_json(saved.head)), _alone(head)),
        "backbone configuration": ({n: before[n] for n in names}, {n: after[n] for n in names}),
        "width of the states": (saved.features.dim, splits.dim),
        "blocks of the backbone": (saved.features.n_blocks, splits.manifest.n_blocks),
        "layers": (list(saved.layers), list(probed.layers)),
        "normalization": (saved.normalization["name"], spec.normalize),
        "token head": (
            saved.features.token_head or saved.head.get("token_head"),
            None if token_head is None else token_head.to_json(),
        ),
    }
    if spec.init_from is not None:
        array = settled_array(splits.kind, spec.pooling, token_head, splits.point)
        compared["rows"] = (saved.features.array, array)
        compared["attention head"] = (saved.features.attention_head, splits.point.attention_head)
        compared["decoder"] = (saved.decoder, probed.decoder.to_json())
    return compared


def saved_classes(spec: TrainSpec) -> tuple[str, ...]:
    """Return the label names of the saved head that a run goes on from; none without one.

    Raises:
        MissingFileError: no saved head lies there.
        RecordError: it is damaged.
    """
    return () if spec.init_from is None else open_saved(spec.init_from)[0].labels


def _alone(head: HeadSpec) -> dict[str, Any]:
    """Return the dict form of a head over layers, without the backbone's configuration."""
    values = head.to_json().items()
    return {name: value for name, value in values if name not in ("config", "token_head")}


def _check_start_labels(folder: str, known: Sequence[str], splits: Splits) -> None:
    if splits.metric == "f1" and len(known) > 2:
        raise OptionError(
            f"--start {folder}: its decoder has {len(known)} labels, and {splits.task.name} is "
            "scored by the F1 of one of two classes. Take only its fusion with --start "
            f"fusion:{folder}."
        )
    if unknown := [name for name in splits.train_classes.names if name not in known]:
        raise OptionError(
            f"--start {folder}: its decoder does not know these labels: "
            f"{_typed(', '.join(unknown))}. Take only its fusion: --start "
            f"fusion:{folder}."
        )


def _typed(value: object) -> str:
    """Return a value as a user would write it: plug-ins as ``NAME:option=value``."""
    text = str(value)
    if isinstance(value, Mapping) and "name" in value:
        settings = [f"{name}={setting}" for name, setting in value.items() if name != "name"]
        text = ":".join([str(value["name"]), *settings])
    return text if len(text) <= 120 else f"{text[:117]}..."


def open_saved(folder: str) -> tuple[SavedHead, dict[str, Tensor], str]:
    """Return a saved head and its tensors, and the sha256 over the tensors.

    Raises:
        MissingFileError: no saved head lies there.
        RecordError: it is damaged.
        UnknownNameError: it has a plug-in that is not known here.
    """
    path = Path(folder).resolve()
    weights, config = (
        digest_file(file) if file.is_file() else "" for file in (path / WEIGHTS, path / CONFIG)
    )
    saved, tensors = _load(path, (weights, config))
    saved.recall_plugins()
    return saved, tensors, weights


@lru_cache(maxsize=4)
def _load(folder: Path, content: tuple[str, str]) -> tuple[SavedHead, dict[str, Tensor]]:
    """Read a saved head once for what its files hold now: another may take its folder."""
    return read_saved(folder)
