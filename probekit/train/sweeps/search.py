"""Search the learning rate in half decades, each head by itself, on seeds of its own.

First five half decades around the default are tried. While the best of them lies at an end, one
more is tried beyond it, so that the best lies strictly inside in the end, or at an edge that the
records name.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from probekit.base.registry import parse
from probekit.base.selection import SEARCHED
from probekit.metrics import scale_of
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.results import Record
from probekit.train.sweeps.fitting import default_rate
from probekit.train.sweeps.run_groups import grouped
from probekit.train.sweeps.specs import TrainSpec

logger = logging.getLogger(__name__)

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


def with_trail(record: Record, trail: Trail) -> Record:
    """Return the record of a run that says how its rate was searched."""
    diagnosis = {**record.diagnosis, **trail}
    return replace(record, rate_from=SEARCHED, diagnosis=diagnosis)


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


def _own_rate(spec: TrainSpec) -> float:
    """Return the default rate; the decoders that labels have by default stand the head's own."""
    head = parse("head", spec.head, HEADS)
    decoder = spec.decoder or head.default_decoder
    if decoder is None:
        return head.learning_rate
    return default_rate(head, parse("decoder", decoder, DECODERS))


def search(
    plan: Sequence[TrainSpec], train: Train
) -> tuple[dict[TrainSpec, TrainSpec], dict[TrainSpec, Trail]]:
    """Find what a plan leaves to be searched.

    Specs that differ in their seed alone are one setting and get one value, which depends on no
    other setting of the plan.

    Args:
        plan: specs, the rate of some of which is to be searched.
        train: trains trials.

    Returns:
        Of every spec the one to train, and of these the trail of their search, where there was one.
    """
    settled = {spec: spec for spec in plan}
    trails: dict[TrainSpec, Trail] = {}
    searched = [spec for spec in plan if spec.searched]
    ladders = _climb(searched, train) if searched else {}
    for spec in searched:
        ladder = ladders[_setting(spec)]
        settled[spec] = replace(spec, rate_from=SEARCHED, lr=value_of(ladder.best))
        trails[settled[spec]] = ladder.trail
    return settled, trails


def _climb(specs: Iterable[TrainSpec], train: Train) -> dict[TrainSpec, Ladder]:
    """Try half decades for every setting until no more are missing.

    The trials of all settings run side by side, a round after the other.
    """
    settings = grouped(specs, _setting)
    ladders = {setting: Ladder(half_decade(_own_rate(setting))) for setting in settings}
    seeds = {setting: trial_seeds(spec.seed for spec in settings[setting]) for setting in settings}
    while rungs := [(key, rung) for key, ladder in ladders.items() for rung in ladder.missing]:
        trials = {
            (setting, rung): [
                replace(setting, seed=seed, trial=True, lr=value_of(rung))
                for seed in seeds[setting]
            ]
            for setting, rung in rungs
        }
        records = train([spec for specs in trials.values() for spec in specs])
        for (setting, rung), specs in trials.items():
            ladders[setting].add(rung, [records[spec] for spec in specs])
    for setting, ladder in ladders.items():
        best = value_of(ladder.best)
        logger.info("%s: --lr %g, of %d tried", setting.head, best, len(ladder.scores))
        if ladder.edge:
            logger.warning(_AT_EDGE, setting.head, best, ladder.edge)
    return ladders


def _setting(spec: TrainSpec) -> TrainSpec:
    return replace(spec, seed=0)


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
