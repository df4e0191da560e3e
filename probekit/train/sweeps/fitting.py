"""Settle how a run is fitted: its fitter, what chooses, and its rates, which a sweep may search.

A learning rate is searched in half decades, each head by itself, on seeds of its own. First five
half decades around the default are tried. While the best of them lies at an end, one more is tried
beyond it, so that the best lies strictly inside in the end, or at an edge that the records name.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from probekit.base.notices import warn_once
from probekit.base.registry import parse
from probekit.base.selection import FIXED, HELD_OUT, SEARCHED, Selection
from probekit.errors import OptionError
from probekit.features import Splits
from probekit.metrics import scale_of
from probekit.probe.decoders import DECODERS, DecoderSpec
from probekit.probe.fitters import FITTERS
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import HeadSpec
from probekit.probe.model_parts import WEIGHTS
from probekit.results import Record
from probekit.train.option_groups import TUNING_EPOCHS, Descent, Steps
from probekit.train.sweeps.run_options import Start
from probekit.train.sweeps.run_views import Probed, open_saved
from probekit.train.sweeps.specs import TrainSpec, grouped

logger = logging.getLogger(__name__)

MOST_SOLVED = 2e9
"""Rows x layers x width up to which ``auto`` solves: minutes of two cores."""

FOLDS, SHARE = Selection("cv", folds=5), Selection("hold-out", share=0.1)
"""What chooses where no labelled test split is left to report: of a solver, and of ``adam``, which
would have to be trained once more for every fold."""

HIDDEN_RATE = 3e-3
"""Most that a decoder is trained at by default if its loss is not convex: it has hidden layers."""


def settle_fit(spec: TrainSpec, probed: Probed) -> TrainSpec:
    """Return the spec with its fitter, what it selects by, and the options of that fitter alone.

    Args:
        spec: as the user gave it.
        probed: what it reads, and what reads it.

    Raises:
        OptionError: the fitter does not suit the head or the decoder, or nothing can be selected.
    """
    head, decoder = probed.head, probed.decoder
    fit = spec.fit if spec.fit != "auto" else choose_fit(spec, probed)
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
    select = _selection(spec, probed.splits, solves=solves)
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


def choose_fit(spec: TrainSpec, probed: Probed) -> str:
    """Return what ``auto`` is: a solver where the problem is smooth and small, else ``adam``."""
    solver, values = solver_of(probed, frozen=spec.freeze_fusion), probed.n_values
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
            probed.head.name,
            values,
            MOST_SOLVED,
            solver,
        )
        return "adam"
    return solver


def solver_of(probed: Probed, *, frozen: bool = False) -> str | None:
    """Return the solver of a head, perhaps frozen, with its decoder; None where none suits."""
    head, decoder = probed.head, probed.decoder
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


TRIAL_SEEDS = 2
FIRST_SEED = 1000
"""Trials take the first seeds from here on that are not to be reported."""

AROUND = 2
"""Half decades on either side of the default that are tried first."""

LIMIT = 6
"""Half decades from the default beyond which a search does not go."""

_AT_EDGE = "%s: the best --lr, %g, is the %s that a search tries; the optimum may lie beyond it."

Train = Callable[[Sequence[TrainSpec]], Mapping[TrainSpec, Record]]
"""Trains trials, and returns the record of each."""

Trail = Mapping[str, Any]
"""What a search tried: the values, and their scores."""


def selected_score(record: Record) -> float | None:
    """Return the score on what selects, by which trials are compared; None of a run that diverged.

    The score of such a run is from before, and says little.
    """
    return None if record.diverged else record.diagnosis.get("selection_score", record.eval_score)


@dataclass
class Ladder:
    """The half decades that were tried for one setting, each with its mean score.

    Attributes:
        start: half decade of the default; number n stands for 10 to the power of n / 2.
        scores: mean score by half decade; None where a run diverged.
        sign: 1 where the largest score is the best, else -1.
    """

    start: int
    scores: dict[int, float | None] = field(default_factory=dict)
    sign: int = 1

    @property
    def best(self) -> int:
        """The half decade with the best score; of equals, that nearest the default.

        Where every run diverged it is the smallest.
        """
        # of 0.8 at rungs -6, -5 and -3, with -5 the default's: -5; of 0.8 at -6 and -4 alone: -6
        scored = {n: self.sign * score for n, score in self.scores.items() if score is not None}
        nearest = sorted(scored, key=lambda rung: (abs(rung - self.start), rung))
        return max(nearest, key=scored.__getitem__) if scored else min(self.scores)

    @property
    def missing(self) -> list[int]:
        """The half decades to be tried next; none when the search is over."""
        if not self.scores:
            return list(range(self.start - AROUND, self.start + AROUND + 1))
        # Around -6 (0.001), -8 to -4 are tried first. If -4 is the best of them, -3 is next; if
        # -3 is better still, -2, and so on to 0. If -4 stays the best, nothing is missing.
        beyond = {min(self.scores): -1, max(self.scores): 1}.get(self.best, 0)
        reached = abs(self.best - self.start) >= LIMIT
        return [self.best + beyond] if beyond and not reached else []

    @property
    def edge(self) -> str | None:
        """``lowest`` or ``highest`` where the best is the last half decade within the limit."""
        if self.best - self.start in (-LIMIT, LIMIT):
            return "lowest" if self.best < self.start else "highest"
        return None

    @property
    def trail(self) -> Trail:
        """What a record says of the search: the edge only where the best lies at one."""
        rungs = sorted(self.scores)
        return {
            "search_rates": [value_of(rung) for rung in rungs],
            "search_scores": [self.scores[rung] for rung in rungs],
            **({"edge": self.edge} if self.edge else {}),
        }

    def add(self, rung: int, records: Sequence[Record]) -> None:
        """Note the trials of a half decade: their mean score on what selects."""
        self.sign = scale_of(records[0].metric).sign
        scores = [score for score in map(selected_score, records) if score is not None]
        sound = len(scores) == len(records)
        self.scores[rung] = math.fsum(scores) / len(scores) if sound else None


def search(
    plan: Sequence[TrainSpec], train: Train
) -> tuple[dict[TrainSpec, TrainSpec], dict[TrainSpec, Trail]]:
    """Find what a plan leaves to be searched.

    Specs that differ in their seed alone are one setting and get one value, which depends on no
    other setting of the plan. The trials of all settings run side by side, a round after the other.

    Args:
        plan: specs, the rate of some of which is to be searched.
        train: trains trials.

    Returns:
        Of every spec the one to train, and of these the trail of their search, where there was one.
    """
    searched = [spec for spec in plan if spec.searched]
    settings = grouped(searched, lambda spec: replace(spec, seed=0))
    ladders = {setting: Ladder(half_decade(_own_rate(setting))) for setting in settings}
    seeds = {key: trial_seeds(spec.seed for spec in specs) for key, specs in settings.items()}
    while rungs := [(key, rung) for key, ladder in ladders.items() for rung in ladder.missing]:
        trials = {
            (key, rung): [
                replace(key, seed=seed, trial=True, lr=value_of(rung)) for seed in seeds[key]
            ]
            for key, rung in rungs
        }
        records = train([spec for specs in trials.values() for spec in specs])
        for (key, rung), specs in trials.items():
            ladders[key].add(rung, [records[spec] for spec in specs])
    settled = {spec: spec for spec in plan}
    trails: dict[TrainSpec, Trail] = {}
    for key, specs in settings.items():
        ladder, lr = ladders[key], value_of(ladders[key].best)
        logger.info("%s: --lr %g, of %d tried", key.head, lr, len(ladder.scores))
        if ladder.edge:
            logger.warning(_AT_EDGE, key.head, lr, ladder.edge)
        for spec in specs:
            settled[spec] = replace(spec, rate_from=SEARCHED, lr=lr)
            trails[settled[spec]] = ladder.trail
    return settled, trails


def with_trail(record: Record, trail: Trail) -> Record:
    """Return the record of a run that says how its rate was searched."""
    return replace(record, rate_from=SEARCHED, diagnosis={**record.diagnosis, **trail})


def _own_rate(spec: TrainSpec) -> float:
    """Return the default rate; the decoders that labels have by default stand the head's own."""
    head = parse("head", spec.head, HEADS)
    decoder = spec.decoder or head.default_decoder
    if decoder is None:
        return head.learning_rate
    return default_rate(head, parse("decoder", decoder, DECODERS))


def trial_seeds(reported: Iterable[int]) -> list[int]:
    """Return the seeds of trials, none of which is among those that are reported."""
    # 1000 and 1001; if 1000 is to be reported, 1001 and 1002
    taken = set(reported)
    candidates = range(FIRST_SEED, FIRST_SEED + TRIAL_SEEDS + len(taken))
    return list(islice((seed for seed in candidates if seed not in taken), TRIAL_SEEDS))


def half_decade(value: float) -> int:
    """Return the number of the half decade nearest a value."""
    return round(2 * math.log10(value))


def value_of(rung: int) -> float:
    """Return the value of a half decade, to three digits: 0.001, 0.00316, 0.01."""
    return float(f"{10 ** (rung / 2):.3g}")
