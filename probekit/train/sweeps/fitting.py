"""Settle how a run is fitted, and what chooses between its fits."""

import logging
from dataclasses import replace
from typing import Any

from probekit.base.notices import warn_once
from probekit.base.selection import HELD_OUT, Selection
from probekit.errors import OptionError
from probekit.features import Splits
from probekit.probe.decoders import DecoderSpec
from probekit.probe.fitters import FITTERS
from probekit.probe.heads import HeadSpec
from probekit.train.sweeps.rates import settle_rates
from probekit.train.sweeps.specs import DESCENT, TrainSpec
from probekit.train.sweeps.start import saved_normalization

logger = logging.getLogger(__name__)

MOST_SOLVED = 2e9
"""Rows x layers x width up to which ``auto`` solves: minutes of two cores."""

FOLDS, SHARE = Selection("cv", folds=5), Selection("hold-out", share=0.1)
"""What chooses where no labelled test split is left to report: of a solver, and of ``adam``, which
would have to be trained once more for every fold."""


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
    fitter = FITTERS[fit]
    frozen = spec.freeze_fusion
    if reason := fitter.unsuited(head, decoder, frozen=frozen):
        other = (
            "lbfgs"
            if fit == "ridge" and not FITTERS["lbfgs"].unsuited(head, decoder, frozen=frozen)
            else "adam"
        )
        raise OptionError(f"--fit {fit}: {reason}; give --fit {other}, or leave --fit out.")
    start = "--init-from" if spec.init_from is not None else "--fusion-from"
    if fitter.solves and (spec.init_from or (spec.fusion_from and not frozen)):
        raise OptionError(
            f"--fit {fit} forgets where it starts from: {start} needs --fit adam, or "
            "--fusion-from with --freeze-fusion."
        )
    select = _selection(spec, splits, solves=fitter.solves)
    mixes = fitter.solves and head.trains == "mixture" and not frozen
    if spec.normalize is None:
        default = "standardize" if mixes else "none"
        spec = replace(spec, normalize=saved_normalization(spec) or default)
    if fitter.solves:
        return replace(spec, fit=fit, select=select, as_published=False, rate_from=None)
    if spec.l2 is not None:
        raise OptionError(f"--l2 is a solver's, and this run descends by steps ({spec.head}).")
    spec = settle_rates(spec, head, decoder)
    filled: dict[str, Any] = {
        name: default if getattr(spec, name) is None else getattr(spec, name)
        for name, default in DESCENT.items()
    }
    return replace(spec, fit=fit, select=select, **filled)


def choose_fit(spec: TrainSpec, head: HeadSpec, decoder: DecoderSpec, values: int) -> str:
    """Return what ``auto`` is: a solver where the problem is smooth and small, else ``adam``."""
    fit = "ridge" if decoder.objective == "squares" else "lbfgs"
    if FITTERS["ridge"].unsuited(head, decoder, frozen=spec.freeze_fusion):
        fit = "lbfgs"
    if FITTERS[fit].unsuited(head, decoder, frozen=spec.freeze_fusion):
        return "adam"
    if spec.untrained or spec.init_from is not None:
        return "adam"
    if spec.fusion_from is not None and not spec.freeze_fusion:
        return "adam"
    if spec.as_published:
        return "adam"
    if spec.descent:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in spec.descent)
        warn_once(logger, "%s given: fitted by adam, not solved (--fit).", names)
        return "adam"
    if values > MOST_SOLVED:
        warn_once(
            logger,
            "%s reads %.1e values (rows x layers x width), more than %.0e: fitted by adam. "
            "--fit %s solves it all the same.",
            head.name,
            values,
            MOST_SOLVED,
            fit,
        )
        return "adam"
    return fit


def _selection(spec: TrainSpec, splits: Splits, *, solves: bool) -> str | None:
    """Return what chooses, as text; None where there is nothing to choose."""
    if spec.untrained or spec.l2 is not None:
        if spec.select is not None:
            raise OptionError(
                f"--select {spec.select}: there is nothing to choose, since "
                f"{'nothing is trained' if spec.untrained else '--l2 names one strength'}."
            )
        return None
    apart = spec.hold_out is not None and "dev" in splits.labels
    if spec.select is None and apart:
        return HELD_OUT
    if spec.select is None:
        default = Selection("dev")
        if "test" not in splits.labels:
            default = FOLDS if solves else SHARE
        return str(default)
    if spec.select == HELD_OUT and not apart:
        return "dev"  # for which it stands
    chosen = Selection.parse(spec.select)
    if chosen.kind == "cv" and not solves:
        raise OptionError(
            f"--select {chosen} chooses the strength of a solver; {spec.head} descends by steps: "
            "give --select hold-out:0.1 or dev."
        )
    return str(chosen)
