"""Settle how a run is fitted: its fitter, what chooses between its fits, and its learning rates."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace

from probekit.base.notices import warn_once
from probekit.base.selection import FIXED, HELD_OUT, Selection
from probekit.errors import OptionError
from probekit.features import Splits
from probekit.probe.decoders import DecoderSpec
from probekit.probe.fitters import FITTERS
from probekit.probe.heads.contract import HeadSpec
from probekit.probe.model_parts import WEIGHTS
from probekit.train.option_groups import TUNING_EPOCHS, Descent, Steps
from probekit.train.sweeps.run_options import Start
from probekit.train.sweeps.specs import TrainSpec
from probekit.train.sweeps.start import open_saved

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
