"""What a sweep does with a plan: it trains and records what nobody has yet, in groups.

Runs of one group share reads, fit memory and keep workers busy.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path

from probekit.base.layers import ReadPoint
from probekit.base.notices import ProgressBar, short_time
from probekit.engines import Engine
from probekit.errors import OptionError
from probekit.metrics import METRICS
from probekit.metrics.number_metrics import ENDLESS
from probekit.probe.fitters import solves
from probekit.results import Record, append_record, check_appendable, recorded
from probekit.results.claims import owners, tidy, wait_for_change
from probekit.results.record import BY_MEAN, BY_REFIT
from probekit.results.summaries.wording import OPTIONS, option_text, rates_text
from probekit.results.trackers import Tracking
from probekit.train.sweeps.fitting import Trail, with_trail
from probekit.train.sweeps.outputs import LOSS, Outputs
from probekit.train.sweeps.resolve import Run, resolve
from probekit.train.sweeps.run_views import open_once, opened_by
from probekit.train.sweeps.specs import TrainSpec, grouped
from probekit.train.sweeps.worker import GroupJob

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
        by_spec = self.resolved(plan)
        keys = {spec: run.options.key for spec, run in by_spec.items()}
        runs: dict[str, Run] = {}
        for run in by_spec.values():  # two specs may be one run
            runs.setdefault(run.options.key, run)
        outputs = (outputs or Outputs()).of_runs(list(runs.values()))
        by_key = {keys[spec]: trail for spec, trail in (trails or {}).items()}
        known = recorded(out)
        todo = [run for key, run in runs.items() if not outputs.are_there(key, known)]
        if len(todo) < len(runs):
            logger.info(_RECORDED, len(runs) - len(todo), len(runs), out)
        if todo:
            check_appendable(out)
        else:
            tidy(out)
        names = {keys[spec]: name for spec, name in run_names(plan).items()}
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

    def resolved(self, plan: Iterable[TrainSpec]) -> dict[TrainSpec, Run]:
        """Return the run of every spec, in their order."""
        plan, runs = list(plan), dict[TrainSpec, Run]()
        for opened, specs in grouped(plan, opened_by).items():
            # no name here holds the splits: `open_once` lets go of all but the last two
            open_splits_of = partial(open_once, self.job.sweep, opened, self.job.location)
            runs |= {spec: resolve(spec, open_splits_of()) for spec in specs}
        return {spec: runs[spec] for spec in plan}

    def fit_without(self, records: Mapping[TrainSpec, Record]) -> dict[TrainSpec, Record]:
        """Fit all runs again without each of their layers; return their records with the losses.

        A run without a layer has all other options as they were settled, so the same fitter and
        rates; a strength of L2 that is chosen is chosen anew.
        """
        refits: dict[TrainSpec, dict[int, TrainSpec]] = {}
        for spec, run in self.resolved(records).items():
            layers = run.options.layers
            if len(layers) > 1:
                others = {n: ",".join(str(other) for other in layers if other != n) for n in layers}
                refits[spec] = {
                    n: replace(run.spec, layers=text, left_out=n) for n, text in others.items()
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
                    names_of_others = " and ".join(sorted({str(one) for one in others.values()}))
                    count = "1 run is" if len(others) == 1 else f"{len(others)} runs are"
                    logger.info(
                        "the last %s being trained by %s: waiting. Ctrl-C leaves them to it.",
                        count,
                        names_of_others,
                    )
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
                name, scale = names[news.key], METRICS[news.metric].scale
                outcome = f"dev {scale.text(news.eval_score)}"
                if news.test_score is not None:
                    outcome += f", test {scale.text(news.test_score)}"
                outcome += ", diverged" if news.diverged else ""
                seconds = short_time(news.train_seconds)
                logger.info("[%d/%d] %s: %s (%s)", len(fresh), len(todo), name, outcome, seconds)
                if self.tracking is not None:
                    self.tracking.follow(news, name)
        return fresh, left


def check_ablation(runs: Iterable[Run], way: str) -> None:
    """Refuse runs of which no layer can be left out; say which of their heads read one alone.

    Args:
        runs: of a plan.
        way: ``mean`` or ``refit``.

    Raises:
        OptionError: none reads several layers, or one that does cannot be fitted again.
    """
    several, alone = list[Run](), dict[str, None]()
    for run in runs:
        if len(run.options.layers) > 1:
            several.append(run)
        else:
            alone[run.member.head.name] = None
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


_MOST_MEMBERS = 32
_COPIES = 5
"""Copies of a head's values: the values, gradients, two moments, the best checkpoint."""

_PER_WORKER = 2
"""Groups per worker, so that one that ends early finds more work."""

_OVERHEAD = 200_000
"""What the calls of a step cost, in values."""

_LINEAR_OVERHEAD = 20_000
"""The same for a linear probe, which steps with others (one with so many values that it does not
is dear by its values): 0.2 ms per probe and step of ``benchmarks/depth_sklearn.py``, all of its
time counted, where a step of its own took 1.2 ms, in fewer steps and with dropout."""

_SOLVED, _MIXTURE = 60, 150
"""What a solver's passes cost for a value that it reads and a part of the rows: in the demo 2 to
9 s of a linear decoder, 24 to 56 s of a mixture, where dwatt takes 8 s."""

_OF_TOKENS = 4
"""What a value of a head over subwords costs, in values of a head over words: there are more rows,
and attention between them (of the same size, 912 s against 211 s of dwatt, mean over decoders and
seeds: ``probekit sweep models/mpnet-base conll --head dwatt,extra-layers --decoder linear,crf
--shots 128 --seeds 5``)."""

MOST_COST = 1.5e10
"""Cost of a group, which is what a sweep that is killed loses: two to seven minutes of one core
without bfloat16 instructions (dwatt on MPNet, 1.3e10: 80 to 109 s with a linear decoder and 309 to
348 s with a CRF, in the same runs)."""


def make_groups(runs: Sequence[Run], *, workers: int, memory: int) -> list[list[Run]]:
    """Divide runs into groups; the costliest come first.

    Runs of one group read the same entries and labels. Runs of one stream (same sample, same
    order) stay together as far as possible, since they share every batch.

    Args:
        runs: what is to be trained.
        workers: how many groups run at once.
        memory: bytes that the members of one group may take.
    """
    # A bundle is one fit: the runs of a solver over seeds 0, 1, 2 are one bundle, which costs what
    # one of them does. Of the dwatt and p32 heads over seeds 0, 1, 2 each run is a bundle; the two
    # of a seed are one stream, so the order is dwatt-0, p32-0, dwatt-1, p32-1, ...
    share = MOST_COST
    by_data = grouped(runs, lambda run: run.data_key).values()
    bundles = [list(grouped(same, lambda run: run.fit_key).values()) for same in by_data]
    if workers > 1:
        total = sum(cost(run) for same in bundles for run, *_ in same)
        share = min(share, total / (workers * _PER_WORKER))
    groups: list[list[list[Run]]] = []
    for same in bundles:
        groups.append([])
        streams = grouped(same, lambda bundle: bundle[0].stream_key).values()
        for bundle in chain(*streams):
            group, run = groups[-1], bundle[0]
            # a bundle joins if half of it fits: three of cost 0.6 and a share of 1 make groups of
            # two and one
            full = (
                len(group) >= _MOST_MEMBERS
                or sum(member_bytes(first) for first, *_ in group) + member_bytes(run) > memory
                or sum(cost(first) for first, *_ in group) + cost(run) / 2 > share
            )
            if group and full:
                groups.append([])
            groups[-1].append(bundle)
    groups.sort(key=lambda group: -sum(cost(first) for first, *_ in group))
    return [list(chain(*group)) for group in groups]


def member_bytes(run: Run) -> int:
    """Return the bytes that a head in training takes."""
    return run.n_params * 4 * _COPIES


def cost(run: Run) -> float:
    """Return the work of a run, in arbitrary units: values used per step, plus overhead."""
    if solves(run.spec.fit):
        select = run.member.select
        parts = 1 if select is None or select.by_split else 1 + max(select.folds, 1)
        return run.n_values * parts * (_SOLVED if run.linear else _MIXTURE)
    head, n_layers = run.member.head, len(run.options.layers)
    overhead = _LINEAR_OVERHEAD if run.linear else _OVERHEAD
    per_token = 1 if head.reads == "rows" else _OF_TOKENS
    values = run.n_params * per_token * (n_layers if head.recurrent else 1)
    return run.steps * (values + n_layers * 20_000 + overhead)


_APART = ("head", "seed", "trial", "rate_from", "left_out")
"""What is said of every run, and what follows from the rest."""


def run_names(plan: Sequence[TrainSpec]) -> dict[TrainSpec, str]:
    """Return a name for each run: head, seed, and whatever else tells the runs of a plan apart."""
    varied = [
        field.name
        for field in fields(TrainSpec)
        if field.name not in _APART and len({getattr(spec, field.name) for spec in plan}) > 1
    ]
    names: dict[TrainSpec, str] = {}
    for spec in plan:
        head = f"trial of {spec.head}" if spec.trial else spec.head
        options = {name: getattr(spec, name) for name in varied}
        if spec.left_out is not None:
            head = f"{head} without layer {spec.left_out}"
            options.pop("layers", None)
        if "rates" in options:
            options["rates"] = rates_text(dict(spec.rates)) or None
        words = [head, f"seed {spec.seed}"]
        for name, value in options.items():
            # layers are text here, where a record has numbers; and of some there are no words
            by_name = value is not None and (name == "layers" or name not in OPTIONS)
            said = f"{name.replace('_', ' ')} {value}" if by_name else option_text(name, value)
            words.append(said)
        names[spec] = ", ".join(words)
    return names
