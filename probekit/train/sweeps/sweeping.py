"""What a sweep does with a plan: it trains and records what nobody has yet, in groups.

A learning rate is searched in half decades, each head by itself, on seeds of its own. First five
half decades around the default are tried. While the best of them lies at an end, one more is tried
beyond it, so that the best lies strictly inside in the end, or at an edge that the records name.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

from probekit.base.kinds import ReadPoint
from probekit.base.notices import ProgressBar
from probekit.base.registry import parse
from probekit.base.selection import SEARCHED
from probekit.engines import Engine
from probekit.errors import OptionError
from probekit.metrics import scale_of
from probekit.metrics.number_metrics import ENDLESS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.results import Record, append_record, check_appendable, recorded
from probekit.results.claims import owners, tidy, wait_for_change
from probekit.results.record import BY_MEAN, BY_REFIT
from probekit.results.trackers import Tracking
from probekit.train.sweeps.fitting import default_rate
from probekit.train.sweeps.outputs import LOSS, Outputs
from probekit.train.sweeps.resolve import Run, resolve
from probekit.train.sweeps.run_groups import grouped, make_groups, member_bytes
from probekit.train.sweeps.run_views import open_once, opened_by
from probekit.train.sweeps.run_words import finished_text, run_names, waiting_text
from probekit.train.sweeps.specs import TrainSpec
from probekit.train.sweeps.worker import GroupJob, Trail, with_trail

logger = logging.getLogger(__name__)

_RECORDED = "%d of %d runs are recorded in %s"


@dataclass(frozen=True, kw_only=True)
class Sweeping:
    """What the trials of a sweep and its runs have in common: see ``run.sweep``.

    Attributes:
        job: a job of no runs yet, with the memory of one worker.
        start: the engine.
        workers: worker processes.
        tracking: what finished runs are shown by, if anything.
        progress: whether it is shown.
    """

    job: GroupJob
    start: Engine
    workers: int
    tracking: Tracking | None
    progress: bool

    def train(
        self,
        plan: Sequence[TrainSpec],
        trails: Mapping[TrainSpec, Trail] | None = None,
        outputs: Outputs | None = None,
    ) -> dict[TrainSpec, Record]:
        """Train what is not recorded, and return the record of every spec, in their order.

        Args:
            plan: the runs, with nothing left to be searched.
            trails: how the search of some specs went, for their records.
            outputs: what each of them leaves behind besides.
        """
        out = self.job.out
        by_spec = self._resolved(plan)
        keys = {spec: run.options.key for spec, run in by_spec.items()}
        runs: dict[str, Run] = {}
        for run in by_spec.values():  # two specs may be one run
            runs.setdefault(run.options.key, run)
        outputs = (outputs or Outputs()).of_runs(list(runs.values()))
        by_key = {keys[spec]: trail for spec, trail in (trails or {}).items()}
        names = {keys[spec]: name for spec, name in run_names(plan).items()}
        known = recorded(out)
        todo = [run for key, run in runs.items() if not outputs.are_there(key, known)]
        if len(todo) < len(runs):
            logger.info(_RECORDED, len(runs) - len(todo), len(runs), out)
        if todo:
            check_appendable(out)
        else:
            tidy(out)
        try:
            fresh = self._finish(todo, replace(self.job, outputs=outputs, trails=by_key), names)
        except KeyboardInterrupt:
            logger.warning(_RECORDED, len(recorded(out).keys() & runs), len(runs), out)
            raise
        known = recorded(out) | fresh
        for key, run in runs.items():
            if key not in fresh:
                known[key] = _noted_again(known[key], run.spec, by_key.get(key), out)
        return {spec: known[keys[spec]] for spec in by_spec}

    def _resolved(self, plan: Iterable[TrainSpec]) -> dict[TrainSpec, Run]:
        """Return the run of every spec, in their order."""
        plan, runs = list(plan), dict[TrainSpec, Run]()
        for opened, specs in grouped(plan, opened_by).items():
            # no name here holds the splits: `open_once` lets go of all but the last two
            open_splits_of = partial(open_once, self.job.sweep, opened, self.job.location)
            runs |= {spec: resolve(spec, open_splits_of()) for spec in specs}
        return {spec: runs[spec] for spec in plan}

    def check_ablation(self, plan: Iterable[TrainSpec], way: str) -> None:
        """Refuse a plan of which no layer can be left out; say which of its heads read one alone.

        Args:
            plan: the runs.
            way: ``mean`` or ``refit``.

        Raises:
            OptionError: none reads several layers, or one that does cannot be fitted again.
        """
        runs = list(self._resolved(plan).values())
        several = [run for run in runs if len(run.options.layers) > 1]
        alone = dict.fromkeys(run.member.head.name for run in runs if run not in several)
        if not several:
            raise OptionError(
                f"--ablate {way} leaves out one layer at a time, and each of these runs reads a "
                f"single one ({', '.join(alone)}). Give a head that reads several, such as --head "
                "p32 or --head dwatt, or leave --ablate out."
            )
        made = [run.spec.token_head for run in several if run.member.head.reads == "texts"]
        if way == BY_MEAN and made:
            raise OptionError(
                f"--ablate {BY_MEAN} puts a layer's mean in the place of its rows, and those of "
                f"--token-head {made[0]} are made by what is trained: give --ablate {BY_REFIT}."
            )
        if way == BY_REFIT and any(run.spec.fusion_from or run.spec.init_from for run in several):
            raise OptionError(
                f"--ablate {BY_REFIT} refits the head on fewer layers, which a run that starts "
                f"from a saved head cannot do: give --ablate {BY_MEAN}, which refits nothing."
            )
        if way == BY_REFIT and any(ReadPoint.parse(run.spec.point).joined for run in several):
            raise OptionError(
                f"--ablate {BY_REFIT} cannot leave out layers of a head over several points. Give "
                f"--ablate {BY_MEAN}."
            )
        if alone:
            logger.info("--ablate: %s reads a single layer, so none is left out.", ", ".join(alone))

    def fit_without(self, records: Mapping[TrainSpec, Record]) -> dict[TrainSpec, Record]:
        """Fit all runs again without each of their layers; return their records with the losses.

        A run without a layer has all other options as they were settled, so the same fitter and
        rates; a strength of L2 that is chosen is chosen anew.
        """
        refits = {
            spec: {layer: _without(layer, run) for layer in run.options.layers}
            for spec, run in self._resolved(records).items()
            if len(run.options.layers) > 1
        }
        plan = [refit for by_layer in refits.values() for refit in by_layer.values()]
        refitted = self.train(plan, outputs=Outputs(losses=True))
        ablated = dict(records)
        for spec, by_layer in refits.items():
            record, loss = records[spec], records[spec].scores[LOSS]
            gains = {n: refitted[refit].scores[LOSS] - loss for n, refit in by_layer.items()}
            finite = all(abs(gain) < ENDLESS / 2 for gain in gains.values())
            ablated[spec] = replace(record, ablated=BY_REFIT, ablation=gains if finite else {})
            if ablated[spec] != record:
                append_record(self.job.out, ablated[spec])
        return ablated

    def _finish(
        self, todo: Sequence[Run], job: GroupJob, names: Mapping[str, str]
    ) -> dict[str, Record]:
        """Train runs until all are recorded, here or by other processes; return those from here."""
        fresh: dict[str, Record] = {}
        said = False
        while todo:
            others = owners(job.out, [run.options.key for run in todo])
            mine = [run for run in todo if run.options.key not in others]
            # others may die, or record a run without the saved head that is wanted here
            left = set(others)
            if mine:
                trained, left_again = self._run(mine, job, names)
                fresh |= trained
                left |= left_again
            else:
                if not said:
                    logger.info("%s", waiting_text(others))
                said = True
                wait_for_change(job.out, others)
            known = recorded(job.out)
            left = {key for key in left if not job.outputs.are_there(key, known)}
            todo = [run for run in todo if run.options.key in left]
        return fresh

    def _run(
        self, todo: Sequence[Run], job: GroupJob, names: Mapping[str, str]
    ) -> tuple[dict[str, Record], set[str]]:
        """Train runs in groups, and say of each when it is recorded.

        Returns:
            The records of the runs that were trained, and the keys of those left to others.
        """
        # of the memory of a group: at most half for heads, the rest for rows
        jobs = [
            replace(
                job,
                specs={run.options.key: run.spec for run in group},
                steps={run.options.key: run.steps for run in group},
                memory=max(job.memory - sum(map(member_bytes, group)), 0),
            )
            for group in make_groups(todo, workers=self.workers, memory=job.memory // 2)
        ]
        total = sum(run.steps for run in todo)
        fresh: dict[str, Record] = {}
        left: set[str] = set()
        with (
            ProgressBar(total=total, desc="train", unit="step", shown=self.progress) as bar,
            closing(self.start(jobs, workers=self.workers, report=bar.report)) as done,
        ):
            for _, news in done:
                if isinstance(news, str):
                    left.add(news)
                    continue
                fresh[news.key] = news  # the job has recorded it
                name, text = names[news.key], finished_text(news)
                logger.info("[%d/%d] %s: %s", len(fresh), len(todo), name, text)
                if self.tracking is not None:
                    self.tracking.follow(news, name)
        return fresh, left


def _without(layer: int, run: Run) -> TrainSpec:
    others = [other for other in run.options.layers if other != layer]
    return replace(run.spec, layers=",".join(map(str, others)), left_out=layer)


def _noted_again(record: Record, spec: TrainSpec, trail: Trail | None, out: Path) -> Record:
    """Return a record that was there as this plan has it; it is recorded anew if it says more.

    The run that was there may have been a trial, or one without a layer of another, or have had its
    rate from the user.
    """
    left_out = None if spec.left_out is None else record.left_out
    noted = replace(record, trial=record.trial and spec.trial, left_out=left_out)
    if trail is not None:  # of two specs that are one run, the searched one counts
        noted = with_trail(noted, trail)
    if noted != record:
        append_record(out, noted)
    return noted


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
