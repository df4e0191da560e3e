"""One group as a job for an engine: open the data, train, save, return records."""

import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from probekit.base.machine import interrupts_held, pick_device
from probekit.base.selection import HELD_OUT
from probekit.data.encoded import window_lengths
from probekit.engines import Report
from probekit.errors import DataError
from probekit.features import FeatureView, Location, Splits
from probekit.metrics import METRICS
from probekit.results import Record, recorded
from probekit.results.claims import Claims
from probekit.train.fit import Interrupted, Snapshot, fit_group
from probekit.train.member import MemberSpec
from probekit.train.option_groups import Steps
from probekit.train.result import FitResult
from probekit.train.stream import StreamSpec
from probekit.train.sweeps.fitting import Trail, with_trail
from probekit.train.sweeps.outputs import Outputs, make_record, model_found
from probekit.train.sweeps.resolve import Run, resolve
from probekit.train.sweeps.run_options import DEFAULT_BATCH_TOKENS
from probekit.train.sweeps.run_views import (
    fitted_and_judging,
    open_once,
    opened_by,
    sample,
    scored_views,
    train_view,
)
from probekit.train.sweeps.specs import TrainSpec, grouped

if TYPE_CHECKING:
    from probekit.backbone import GivenModel
    from probekit.train.live.live_model import LiveModel


@dataclass(frozen=True, kw_only=True)
class GroupJob:
    """Trains one group; picklable, so that any engine can run it.

    Attributes:
        specs: the runs, by record key.
        steps: what each of them counts on a progress bar.
        out: the records file.
        trails: how the rates of some runs were searched, by record key.
        location: where entries and labels lie.
        device: what computes, as `pick_device` takes it.
        memory: bytes that rows may take.
        outputs: what to write besides records.
        trust_remote_code: run code that lies with the model that runs with a method train.
        sweep: names the sweep, so that its groups in one process share what they opened, and a
            group that is run again, as its worker was lost, goes on with its claims.
    """

    specs: Mapping[str, TrainSpec] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    out: Path
    trails: Mapping[str, Trail] = field(default_factory=dict)
    location: Location
    device: str
    memory: int
    outputs: Outputs = field(default_factory=Outputs)
    trust_remote_code: bool = False
    sweep: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __call__(self, report: Report) -> Generator[Record | str, None, None]:
        """Train the runs that no other process trains or has trained.

        Yields:
            The record of each run that was trained, once it is recorded, and the key of each that
            is left to another process.

        Raises:
            DataError: the data is no longer what a run was planned with.
        """
        with Claims(self.out, self.sweep) as claims:
            free = claims.take(self.specs)
            known = recorded(self.out)  # after the claim: what was let go of by then is in it
            done = {key for key in free if self.outputs.are_there(key, known)}
            claims.release(done)
            keys = [key for key in self.specs if key in free - done]
            for key in self.specs.keys() - set(keys):
                report(self.steps[key])
                yield key
            if keys:
                yield from self._train(keys, claims, known, report)

    def _train(
        self, keys: Sequence[str], claims: Claims, known: Mapping[str, Record], report: Report
    ) -> Iterator[Record | str]:
        """Train the runs that were claimed, and record each of them."""
        splits = open_once(self.sweep, opened_by(self.specs[keys[0]]), self.location)
        runs = [resolve(self.specs[key], splits) for key in keys]
        if [run.options.key for run in runs] != keys:  # the plan was made with other data
            raise DataError(
                f"{runs[0].spec.task}: the labels, the features or the saved head to start from "
                "changed while the sweep ran. Finished runs keep their records. Run the command "
                "again: it trains every run that uses what changed."
            )
        device = pick_device(self.device)
        # a run that trains the model has a group of its own, and takes minutes to hours
        snapshot = Snapshot.beside(self.out, keys[0]) if runs[0].spec.tunes else None
        results = fit_runs(
            runs,
            splits,
            self.outputs,
            device=device,
            memory=self.memory,
            predictions=self.outputs.predictions is not None,
            trust_remote_code=self.trust_remote_code,
            snapshot=snapshot,
            report=report,
        )
        for run, result in results:
            key = run.options.key
            record = make_record(run, result, splits, self.outputs, device)
            if key in self.trails:
                record = with_trail(record, self.trails[key])
            record = carried_over(record, known.get(key))
            ours = claims.record(record)
            if snapshot is not None and ours:
                snapshot.remove()
            yield record if ours else key


def carried_over(record: Record, earlier: Record | None) -> Record:
    """Return the record of a run that was trained again, with what is known of it besides.

    A run is trained again for an output that it did not have, and loses no other one.

    Args:
        record: of the run as it was trained now.
        earlier: what was recorded of it before, if anything was.
    """
    if earlier is None:
        return record
    trial, left_out = record.trial and earlier.trial, record.left_out
    record = replace(record, trial=trial, left_out=None if earlier.left_out is None else left_out)
    if record.predictions is None:
        file, digest = earlier.predictions, earlier.predictions_digest
        record = replace(record, predictions=file, predictions_digest=digest)
    if record.ablated is None:
        record = replace(record, ablated=earlier.ablated, ablation=earlier.ablation)
    return record


def fit_runs(
    runs: Sequence[Run],
    splits: Splits,
    outputs: Outputs,
    *,
    device: str,
    memory: int | None,
    predictions: bool,
    given: "GivenModel | None" = None,
    trust_remote_code: bool = False,
    snapshot: Snapshot | None = None,
    report: Report = lambda news: None,
) -> Iterator[tuple[Run, FitResult]]:
    """Train runs of the same data side by side; yield each with its result, once that is written.

    Their rows are those of the model that their method runs, perhaps a given one, or of the cache.

    Runs that differ in a seed which decides nothing are fitted once. After Ctrl-C the results of
    what is finished come before it goes on. What is done with results is not interrupted, unless
    Ctrl-C comes twice.
    """
    # Five runs, one solved head with seeds 0, 1 and 2, then another with 0 and 1: two are fitted,
    # the first of each, and each result is yielded for all its twins.
    twins = grouped(runs, lambda run: run.fit_key)
    fitted = [run for run, *_ in twins.values()]
    views = scored_views(runs[0].spec, splits)
    streams, fitted = make_streams(fitted, splits, views.get(HELD_OUT))
    interrupt = None
    live = open_method(runs, splits, device, given, trust_remote_code=trust_remote_code)
    if live is not None and live.learns and streams[0].total_steps:
        live.check_memory(streams[0].total_steps)
    dev, metric = views.pop("dev"), METRICS[splits.metric]
    how: dict[str, Any] = {"metric": metric, "device": device, "memory": memory, "report": report}
    start = None
    if (solving := runs[0].solving) is not None:
        (stream,) = streams
        start = solve_start(stream, solving.member, dev, **how)
        member = replace(stream.members[0], start=start.state)
        streams = [replace(stream, members=(member,), scored_first=True)]
    how |= {"predictions": predictions, "ablate": outputs.ablate, "live": live}
    try:
        groups = fit_group(streams, dev, views, snapshot=snapshot, **how)
        flat: list[FitResult | None] = [result for group in groups for result in group]
    except Interrupted as error:
        flat, interrupt = list(error.finished), error
    report(sum(run.steps for _, *others in twins.values() for run in others))
    with nullcontext() if interrupt else interrupts_held():
        for run, result in zip(fitted, flat, strict=True):
            if result is None:
                continue
            if start is not None:
                result = replace(
                    result,
                    train_seconds=start.train_seconds + result.train_seconds,
                    diagnosis={**result.diagnosis, "start_score": start.eval_score},
                )
            for twin in twins[run.fit_key]:
                outputs.write(twin, result, splits, live)
                yield twin, result
    if interrupt:
        raise interrupt


def solve_start(stream: StreamSpec, solving: MemberSpec, dev: FeatureView, **how: Any) -> FitResult:
    """Return the head that a run starts from, fitted to the cached rows that it trains on.

    Linear probing, then fine-tuning (Kumar et al. 2022, "Fine-tuning can distort pretrained
    features and underperform out-of-distribution").

    Args:
        stream: the run's; what judges its checkpoints judges the solver's strengths.
        solving: the same head and decoder, to be solved.
        dev: scored once.
        how: other options of `fit_group`.
    """
    ((start,),) = fit_group([replace(stream, members=(solving,))], dev, **how)
    return start


def open_method(
    runs: Sequence[Run],
    splits: Splits,
    device: str,
    given: "GivenModel | None",
    *,
    trust_remote_code: bool,
) -> "LiveModel | None":
    """Load the model that runs train, or that makes their rows; None of runs from the cache.

    Args:
        runs: of one method.
        splits: their data.
        device: where it runs.
        given: the model in memory, of which a copy is trained; None is where the entry says.
        trust_remote_code: run code that lies with the model.

    Raises:
        OptionError: a text of any split is too long for the method.
    """
    spec = runs[0].spec
    if (method := spec.tuning) is None:
        return None
    from probekit.train.live.live_model import open_live

    live = open_live(
        splits.entries["train"],
        model_found(splits.manifest.model_info, spec),
        method,
        layers=sorted({layer for run in runs for layer in run.options.layers}),
        seed=spec.seed,
        batch_tokens=spec.batch_tokens or DEFAULT_BATCH_TOKENS,
        model=given,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    if method.trains:
        for entry in splits.entries.values():
            live.check_fits(window_lengths(entry.examples).values)
    return live


def make_streams(
    runs: Sequence[Run], splits: Splits, held: FeatureView | None = None
) -> tuple[list[StreamSpec], list[Run]]:
    """Gather runs into streams.

    Args:
        runs: of one group.
        splits: their data.
        held: what is held out of train beside dev; it judges those that select by it.

    Returns:
        The streams, and the runs in the order of their members.
    """
    # Runs of two heads with seeds 0 and 1, in the order last-0, last-1, p32-0, p32-1: one stream
    # of seed 0, with last-0 and p32-0, and one of seed 1.
    by_stream = grouped(runs, lambda run: run.stream_key).values()
    full = train_view(splits, runs[0].spec.pooling)
    every = np.arange(full.n_examples)
    views: dict[bytes, FeatureView] = {}  # one per sample, so that its rows are in memory once
    streams = []
    for members in by_stream:
        spec = members[0].spec
        fitted, judging = fitted_and_judging(spec, splits, sample(spec, splits))
        for drawn in (fitted, judging):
            if drawn is not None and drawn.tobytes() not in views:
                views[drawn.tobytes()] = full if np.array_equal(drawn, every) else full.take(drawn)
        judge = held if spec.select == HELD_OUT else None
        streams.append(
            StreamSpec(
                train=views[fitted.tobytes()],
                judge=judge if judging is None else views[judging.tobytes()],
                seed=spec.seed,
                steps=spec.of(Steps),
                members=tuple(run.member for run in members),
            )
        )
    return streams, list(chain(*by_stream))
