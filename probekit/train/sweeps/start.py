"""Saved heads that runs start from: a frozen fusion, or everything, trained further elsewhere."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from probekit.base.fingerprint import digest, digest_file
from probekit.base.notices import warn_once
from probekit.errors import OptionError
from probekit.features import Splits, settled_array
from probekit.probe.decoders import DecoderSpec
from probekit.probe.heads import head_from_json
from probekit.probe.heads.contract import HeadSpec
from probekit.probe.model_parts import differing_entries
from probekit.train.saved.folder import CONFIG, WEIGHTS, SavedHead, read_saved
from probekit.train.sweeps.run_options import Start
from probekit.train.sweeps.specs import TrainSpec
from probekit.tuning import method_of

logger = logging.getLogger(__name__)

_OTHER_MODEL = "%s was trained on another backbone (%s) of the same shape."


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


def open_start(
    spec: TrainSpec,
    head: HeadSpec,
    decoder: DecoderSpec,
    layers: tuple[int, ...],
    splits: Splits,
) -> SavedStart:
    """Read the saved head that a run starts from, if it names one.

    Args:
        spec: with ``fusion_from`` or ``init_from``, its defaults filled in.
        head: the run's head, which must be the saved one's.
        decoder: its decoder, which must be the saved one's under ``init_from``.
        layers: layers that it reads.
        splits: the features.

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
    saved, tensors, fingerprint = open_saved(folder)
    option = f"--start {spec.of(Start).typed}"
    asked = {
        # Settings that came after a head was saved have their default.
        "head": (_without_config(head_from_json(saved.head)), _without_config(head)),
        "backbone configuration": _differing(saved.head, head.to_json()),
        "width of the states": (saved.features.dim, splits.manifest.dim),
        "blocks of the backbone": (saved.features.n_blocks, splits.manifest.n_blocks),
        "layers": (list(saved.layers), list(layers)),
        "normalization": (saved.normalization["name"], spec.normalize),
    }
    if spec.init_from is not None:
        asked["rows"] = (saved.features.array, settled_array(splits.kind, spec.pooling))
        asked["decoder"] = (saved.decoder, decoder.to_json())
    for part, (before, wanted) in asked.items():
        if before != wanted:
            raise OptionError(
                f"{option}: saved with {part} {_short(before)}, but this run has "
                f"{_short(wanted)}. Give the same options as the run that saved it."
            )
    if spec.init_from is not None:
        _check_labels(folder, saved.labels, splits)
    same = saved.model.get("identity") == splits.manifest.model_info.get("identity")
    method = method_of(saved.options.get("method"))
    if same and method is not None and method.trains:  # these rows are of the model before that
        raise OptionError(
            f"{option}: this head was trained together with its model (--method {method.name}), "
            "and no run can start from such a head. Give a head that was trained on frozen rows."
        )
    if not same:
        name = str(saved.model.get("name", "unknown"))
        warn_once(logger, _OTHER_MODEL, folder, name)
    wanted_parts = ("head.", "decoder.", "normalization.") if spec.init_from else ("head.",)
    state = {name: value for name, value in tensors.items() if name.startswith(wanted_parts)}
    return SavedStart(
        name=_name(saved) + (" with decoder" if spec.init_from else ""),
        fingerprint=fingerprint,
        state=state,
    )


def saved_classes(spec: TrainSpec) -> tuple[str, ...]:
    """Return the label names of the saved head that a run goes on from; none without one.

    Raises:
        MissingFileError: no saved head lies there.
        RecordError: it is damaged.
    """
    return () if spec.init_from is None else open_saved(spec.init_from)[0].labels


def _without_config(head: HeadSpec) -> dict[str, Any]:
    return {name: value for name, value in head.to_json().items() if name != "config"}


def _differing(
    saved: Mapping[str, Any], wanted: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what differs between the configurations of two heads' backbones, of either."""
    before, after = (head.get("config") or {} for head in (saved, wanted))
    names = differing_entries(before, after)
    return {name: before[name] for name in names}, {name: after[name] for name in names}


def _name(saved: SavedHead) -> str:
    # "conll ner 1f0c9a3e" of a head that was saved for each of some seeds
    options = {name: value for name, value in saved.options.items() if name != "seed"}
    if options.get("start") is not None:  # that one may be of this seed as well: its name is not
        options |= {"start": saved.init, "fusion_from": None, "init_from": None}
    return f"{saved.task} {saved.label} {digest(options)[:8]}"


def _check_labels(folder: str, known: Sequence[str], splits: Splits) -> None:
    if splits.metric == "f1" and len(known) > 2:
        raise OptionError(
            f"--start {folder}: its decoder has {len(known)} labels, and {splits.task.name} is "
            "scored by the F1 of one of two classes. Take only its fusion with --start "
            f"fusion:{folder}."
        )
    if unknown := [name for name in splits.train_classes.names if name not in known]:
        raise OptionError(
            f"--start {folder}: its decoder does not know these labels: "
            f"{_short(', '.join(unknown))}. Take only its fusion: --start "
            f"fusion:{folder}."
        )


def _short(value: object) -> str:
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
