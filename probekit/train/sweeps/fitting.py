"""Settle how a run is fitted: its fitter, what chooses, its rates, and the head it starts from."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from probekit.base.fingerprint import digest, digest_file
from probekit.base.notices import warn_once
from probekit.base.selection import FIXED, HELD_OUT, Selection
from probekit.errors import OptionError
from probekit.features import Splits, settled_array
from probekit.probe.decoders import DecoderSpec
from probekit.probe.fitters import FITTERS
from probekit.probe.heads import head_from_json
from probekit.probe.heads.contract import HeadSpec
from probekit.probe.model_parts import WEIGHTS, differing_entries
from probekit.train.option_groups import TUNING_EPOCHS, Descent, Steps
from probekit.train.saved.folder import CONFIG, SavedHead, read_saved
from probekit.train.saved.folder import WEIGHTS as HEAD_WEIGHTS
from probekit.train.sweeps.run_options import Start
from probekit.train.sweeps.specs import TrainSpec
from probekit.tuning import method_of

logger = logging.getLogger(__name__)

MOST_SOLVED = 2e9
"""Rows x layers x width up to which ``auto`` solves: minutes of two cores."""

FOLDS, SHARE = Selection("cv", folds=5), Selection("hold-out", share=0.1)
"""What chooses where no labelled test split is left to report: of a solver, and of ``adam``, which
would have to be trained once more for every fold."""

HIDDEN_RATE = 3e-3
"""Most that a decoder is trained at by default if its loss is not convex: it has hidden layers."""


def settle_fit(
    spec: TrainSpec, head: HeadSpec, decoder: DecoderSpec, *, values: int, splits: Splits
) -> TrainSpec:
    """Return the spec with its fitter, what it selects by, and the options of that fitter alone.

    Args:
        spec: as the user gave it.
        head: its head.
        decoder: its decoder.
        values: rows x layers x width that it reads.
        splits: the features.

    Raises:
        OptionError: the fitter does not suit the head or the decoder, or nothing can be selected.
    """
    fit = spec.fit if spec.fit != "auto" else choose_fit(spec, head, decoder, values)
    solves, frozen = FITTERS[fit].solves, spec.freeze_fusion
    if reason := FITTERS[fit].unsuited(head, decoder, frozen=frozen):
        solvable = not FITTERS["lbfgs"].unsuited(head, decoder, frozen=frozen)
        other = "lbfgs" if fit == "ridge" and solvable else "adam"
        raise OptionError(f"--fit {fit}: {reason}; give --fit {other}, or leave --fit out.")
    if solves and _moves_on(spec):
        folder = spec.init_from or spec.fusion_from
        raise OptionError(
            f"--fit {fit} solves from scratch and would ignore --start {spec.of(Start).typed}: "
            f"give --fit adam, or --start frozen-fusion:{folder}."
        )
    select = _selection(spec, splits, solves=solves)
    if spec.normalize is None:
        normalize = "none"
        if folder := spec.fusion_from or spec.init_from:
            normalize = str(open_saved(folder)[0].normalization["name"])
        spec = replace(spec, normalize=normalize)
    if solves:
        return replace(spec, fit=fit, select=select, as_published=False, rate_from=None)
    if spec.l2 is not None:
        raise OptionError(
            f"--l2 is for solvers, and this run trains by steps ({spec.head}). Leave it out."
        )
    spec = settle_rates(spec, head, decoder)
    if spec.tunes and spec.epochs is None:
        spec = replace(spec, epochs=TUNING_EPOCHS)
    descent, steps = spec.of(Descent).filled(), spec.of(Steps).filled()
    return replace(spec, fit=fit, select=select, **vars(descent), **vars(steps))


def _moves_on(spec: TrainSpec) -> bool:
    """Say whether values that are trained start from saved ones."""
    moving = spec.fusion_from is not None and not spec.freeze_fusion
    return spec.init_from is not None or moving


def choose_fit(spec: TrainSpec, head: HeadSpec, decoder: DecoderSpec, values: int) -> str:
    """Return what ``auto`` is: a solver where the problem is smooth and small, else ``adam``."""
    solver = solver_of(head, decoder, frozen=spec.freeze_fusion)
    if solver is None or spec.untrained or _moves_on(spec) or spec.as_published or spec.tunes:
        return "adam"
    if spec.descending:
        names = " and ".join(spec.descending)
        warn_once(
            logger,
            "%s given: heads that could be solved are trained by steps too (adam). To solve "
            "them, leave it out.",
            names,
        )
        return "adam"
    if values > MOST_SOLVED:
        warn_once(
            logger,
            "%s reads %.1e values (rows x layers x width), more than %.0e: fitted by adam. Give "
            "--fit %s to solve it anyway.",
            head.name,
            values,
            MOST_SOLVED,
            solver,
        )
        return "adam"
    return solver


def solver_of(head: HeadSpec, decoder: DecoderSpec, *, frozen: bool = False) -> str | None:
    """Return the solver of a head, perhaps frozen, with a decoder; None where none suits."""
    solvers = ("ridge", "lbfgs") if decoder.objective == "squares" else ("lbfgs",)
    suited = (name for name in solvers if not FITTERS[name].unsuited(head, decoder, frozen=frozen))
    return next(suited, None)


def _selection(spec: TrainSpec, splits: Splits, *, solves: bool) -> str | None:
    """Return what chooses, as text; None where there is nothing to choose.

    Raises:
        OptionError: what was asked for cannot choose; or there are groups, and nothing is chosen or
            held out, so that no record would name them.
    """
    if spec.untrained or spec.l2 is not None:
        if spec.select is not None:
            raise OptionError(
                f"--select {spec.select}: there is nothing to choose, since "
                f"{'nothing is trained' if spec.untrained else '--l2 names one strength'}."
            )
        if spec.group is not None and spec.hold_out is None:
            raise OptionError(
                f"--group {spec.group} needs something to tune, and --l2 fixes the only choice: "
                "leave --l2 out, or --group."
            )
        return None
    apart = spec.hold_out is not None and "dev" in splits.labels
    if (chosen := spec.selection) is None:
        share = str(FOLDS if solves else SHARE)
        return HELD_OUT if apart else "dev" if "test" in splits.labels else share
    if chosen.kind == HELD_OUT and not apart:
        return "dev"  # for which it stands
    if chosen.kind == "cv" and not solves:
        raise OptionError(
            f"--select {chosen} tunes the L2 of a solver, and {spec.head} trains by steps: give "
            "--select hold-out:0.1 or dev."
        )
    return str(chosen)


def settle_rates(spec: TrainSpec, head: HeadSpec, decoder: DecoderSpec) -> TrainSpec:
    """Return the spec with the rate of ``weights`` and of every other group written out.

    A group that has no rate of its own in the spec has the default that its head, decoder or
    method states, unless all groups have one rate; without a default it has the rate of
    ``weights``. What a method puts beside the model's values, such as gates, keeps its own rate.

    Args:
        spec: as the user gave it, or settled before.
        head: its head.
        decoder: its decoder.

    Raises:
        OptionError: a rate of a group that is not trained, or one that is still to be searched.
    """
    if spec.searched:
        raise OptionError(
            "--lr search needs several runs, and this is a single one: use probekit sweep --lr "
            "search, or give a number."
        )
    defaults = {**({} if spec.freeze_fusion else head.group_rates), **decoder.group_rates}
    beside_model: Mapping[str, float] = {}
    if (method := spec.tuning) is not None:
        defaults |= method.rates
        beside_model = method.group_rates
    named = dict(spec.rates)
    for name, rate in named.items():
        if name not in defaults:
            groups = " and ".join([WEIGHTS, *defaults])
            frozen = ", its fusion frozen," if spec.freeze_fusion else ""
            raise OptionError(
                f"--lr {name}={rate:g}: {spec.head} with decoder {decoder.name}{frozen} "
                f"has no parameters called {name}; it trains {groups}. Leave that rate out."
            )
    lr = default_rate(head, decoder) if spec.lr is None else float(spec.lr)
    # as published, {"mixing": 0.1, "transitions": None} is {"mixing": lr, "transitions": lr};
    # else only transitions, which have no default, take lr; what was given goes before either
    if spec.as_published:
        defaults |= dict.fromkeys(defaults, lr)
    shared = {name: lr if rate is None else rate for name, rate in defaults.items()}
    rates = tuple({**shared, **beside_model, **named}.items())
    origin = spec.rate_from or FIXED
    return replace(spec, lr=lr, rates=rates, as_published=False, rate_from=origin)


def default_rate(head: HeadSpec, decoder: DecoderSpec) -> float:
    """Return the rate of ``weights`` where none is given.

    A light head's suits a single linear layer; hidden layers in its decoder stand less.
    """
    return min(head.learning_rate, math.inf if decoder.objective else HIDDEN_RATE)


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
        "head": (_alone(head_from_json(saved.head)), _alone(head)),
        "backbone configuration": _differing(saved.head, head.to_json()),
        "width of the states": (saved.features.dim, splits.dim),
        "blocks of the backbone": (saved.features.n_blocks, splits.manifest.n_blocks),
        "layers": (list(saved.layers), list(layers)),
        "normalization": (saved.normalization["name"], spec.normalize),
    }
    token_head = splits.token_head
    asked["token head"] = (
        saved.features.token_head or saved.head.get("token_head"),
        None if token_head is None else token_head.to_json(),
    )
    if spec.init_from is not None:
        array = settled_array(splits.kind, spec.pooling, token_head, splits.point)
        asked["rows"] = (saved.features.array, array)
        asked["attention head"] = (saved.features.attention_head, splits.point.attention_head)
        asked["decoder"] = (saved.decoder, decoder.to_json())
    for part, (before, wanted) in asked.items():
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
        name = str(saved.model.get("name", "unknown"))
        warn_once(logger, _OTHER_MODEL, folder, name)
    wanted_parts = ("head.", "decoder.", "normalization.") if spec.init_from else ("head.",)
    state = {name: value for name, value in tensors.items() if name.startswith(wanted_parts)}
    return SavedStart(
        name=_start_name(saved) + (" with decoder" if spec.init_from else ""),
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


def _alone(head: HeadSpec) -> dict[str, Any]:
    """Return the dict form of a head over layers, without the backbone's configuration."""
    values = head.to_json().items()
    return {name: value for name, value in values if name not in ("config", "token_head")}


def _differing(
    saved: Mapping[str, Any], wanted: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what differs between the configurations of two heads' backbones, of either."""
    before, after = (head.get("config") or {} for head in (saved, wanted))
    names = differing_entries(before, after)
    return {name: before[name] for name in names}, {name: after[name] for name in names}


def _start_name(saved: SavedHead) -> str:
    # "conll ner 1f0c9a3e" of a head that was saved for each of some seeds
    options = {name: value for name, value in saved.options.items() if name != "seed"}
    if options.get("start") is not None:  # that one may be of this seed as well: its name is not
        options |= {"start": saved.init, "fusion_from": None, "init_from": None}
    return f"{saved.task} {saved.label} {digest(options)[:8]}"


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
        digest_file(file) if file.is_file() else "" for file in (path / HEAD_WEIGHTS, path / CONFIG)
    )
    saved, tensors = _load(path, (weights, config))
    saved.recall_plugins()
    return saved, tensors, weights


@lru_cache(maxsize=4)
def _load(folder: Path, content: tuple[str, str]) -> tuple[SavedHead, dict[str, Tensor]]:
    """Read a saved head once for what its files hold now: another may take its folder."""
    return read_saved(folder)
