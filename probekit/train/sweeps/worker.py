"""One group as a job for an engine: open the data, train, save, return records."""

import uuid
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from probekit.base.machine.hardware import pick_device
from probekit.base.machine.process import interrupts_held
from probekit.base.selection import HELD_OUT
from probekit.data.encoded import window_lengths
from probekit.data.pooling import Pooling
from probekit.engines import Report
from probekit.errors import DataError
from probekit.features import FeatureView, Location, Splits
from probekit.metrics import METRICS
from probekit.results import Record, recorded
from probekit.results.claims import Claims
from probekit.store.codec import READ_DTYPES
from probekit.train.fit import Interrupted, fit_group
from probekit.train.option_groups import Steps
from probekit.train.result import FitResult
from probekit.train.snapshot import Snapshot
from probekit.train.stream import StreamSpec
from probekit.train.sweeps.outputs import Outputs, carried_over, model_found
from probekit.train.sweeps.resolve import Run, resolve
from probekit.train.sweeps.run_groups import fit_key, grouped, stream_key
from probekit.train.sweeps.run_options import DEFAULT_BATCH_TOKENS
from probekit.train.sweeps.run_views import (
    fitted_and_judging,
    open_once,
    opened_by,
    sample,
    scored_views,
    train_view,
)
from probekit.train.sweeps.run_words import make_record
from probekit.train.sweeps.search import Note
from probekit.train.sweeps.solved_start import solve_start, started, with_start
from probekit.train.sweeps.specs import TrainSpec

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
        notes: what the record of some runs says besides: see `Note`.
        location: where entries and labels lie.
        device: what computes, as `pick_device` takes it.
        memory: bytes that rows may take.
        outputs: what to write besides records.
        given: the model in memory that runs with a method train; None is where entries say it lies.
        trust_remote_code: run code that lies with that model.
        sweep: names the sweep, so that its groups in one process share what they opened, and a
            group that is run again, as its worker was lost, goes on with its claims.
    """

    specs: Mapping[str, TrainSpec] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    out: Path
    notes: Mapping[str, Note] = field(default_factory=dict)
    location: Location
    device: str
    memory: int
    outputs: Outputs = field(default_factory=Outputs)
    given: "GivenModel | None" = None
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
        device = pick_device(self.device)
        with Claims(self.out, self.sweep) as claims:
            free = claims.take(self.specs)
            known = recorded(self.out)  # after the claim: what was let go of by then is in it
            done = {key for key in free if self.outputs.are_there(key, known)}
            claims.release(done)
            keys = [key for key in self.specs if key in free - done]
            for key in self.specs.keys() - set(keys):
                report(self.steps[key])
                yield key
            if not keys:
                return
            splits = open_once(self.sweep, opened_by(self.specs[keys[0]]), self.location)
            runs = [resolve(self.specs[key], splits) for key in keys]
            if [run.options.key for run in runs] != keys:  # the plan was made with other data
                raise DataError(
                    f"{runs[0].spec.task}: the labels, the features or the saved head to start "
                    "from changed while the sweep ran. What is finished stays recorded as it was "
                    "trained; run the command again, and every run on what changed is trained anew."
                )
            device = pick_device(self.device)
            trust = self.trust_remote_code
            live = open_method(runs, splits, device, self.given, trust_remote_code=trust)
            # a run that trains the model has a group of its own, and takes minutes to hours
            tunes = runs[0].spec.tunes
            snapshot = Snapshot.beside(self.out, keys[0]) if tunes else None
            results = fit_runs(
                runs,
                splits,
                live=live,
                device=device,
                memory=self.memory,
                predictions=bool(self.outputs.predictions),
                ablate=bool(self.outputs.ablated),
                snapshot=snapshot,
                report=report,
            )
            for place, result in results:
                run = runs[place]
                self.outputs.write(run, result, splits, live)
                record = make_record(run, result, splits, self.outputs, device)
                note = self.notes.get(run.options.key)
                record = record if note is None else note.on(record)
                record = carried_over(record, known.get(run.options.key))
                ours = claims.record(record)
                if snapshot is not None and ours:
                    snapshot.remove()
                yield record if ours else record.key


def fit_runs(
    runs: Sequence[Run],
    splits: Splits,
    *,
    live: "LiveModel | None",
    device: str,
    memory: int | None,
    predictions: bool,
    ablate: bool = False,
    snapshot: Snapshot | None = None,
    report: Report,
) -> Iterator[tuple[int, FitResult]]:
    """Train runs of the same data side by side; yield each result with the place of its run.

    Their rows are those of a live model, or, without one, of the cache.

    Runs that differ in a seed which decides nothing are fitted once. After Ctrl-C the results of
    what is finished come before it goes on. What is done with results is not interrupted, unless
    Ctrl-C comes twice.
    """
    # Five runs, one solved head with seeds 0, 1 and 2, then another with 0 and 1: the twins are
    # [0, 0, 0, 3, 3], the runs 0 and 3 are fitted, and each result is yielded for all its twins.
    firsts: dict[Hashable, int] = {}
    twins = [firsts.setdefault(fit_key(run), place) for place, run in enumerate(runs)]
    fitted = sorted(set(twins))
    views = scored_views(runs[0].spec, splits)
    streams, order = make_streams([runs[place] for place in fitted], splits, views.get(HELD_OUT))
    interrupt = None
    if live is not None and live.learns and streams[0].total_steps:
        from probekit.train.live.live_forecast import check_run  # with transformers

        (stream,) = streams
        check_run(live, stream, views["dev"])
    dev, metric = views.pop("dev"), METRICS[splits.metric]
    how: dict[str, Any] = {"metric": metric, "device": device, "memory": memory, "report": report}
    start = None
    if (solving := runs[0].solving) is not None:
        (stream,) = streams
        start = solve_start(stream, solving.member, dev, **how)
        streams = [started(stream, start)]
    try:
        groups = fit_group(
            streams,
            dev,
            views,
            **how,
            predictions=predictions,
            ablate=ablate,
            live=live,
            snapshot=snapshot,
        )
        flat: list[FitResult | None] = [result for group in groups for result in group]
    except Interrupted as error:
        flat, interrupt = list(error.finished), error
    report(sum(run.steps for place, run in enumerate(runs) if place not in set(fitted)))
    found = {fitted[place]: result for place, result in zip(order, flat, strict=True)}
    with nullcontext() if interrupt else interrupts_held():
        for place, twin in enumerate(twins):
            if (result := found[twin]) is not None:
                yield place, result if start is None else with_start(result, start)
    if interrupt:
        raise interrupt


def open_method(
    runs: Sequence[Run],
    splits: Splits,
    device: str,
    given: "GivenModel | None" = None,
    *,
    trust_remote_code: bool = False,
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
    spec, manifest = runs[0].spec, splits.manifest
    if (method := spec.tuning) is None:
        return None
    from probekit.train.live.live_opening import open_live

    live = open_live(
        model_found(manifest.model_info, spec),
        method,
        layers=sorted({layer for run in runs for layer in run.options.layers}),
        seed=spec.seed,
        pooling=cast(Pooling, manifest.pooling),
        dtype=READ_DTYPES[manifest.dtype],
        compute_dtype=manifest.compute_dtype,
        batch_tokens=spec.batch_tokens or DEFAULT_BATCH_TOKENS,
        model=given,
        device=device,
        trust_remote_code=trust_remote_code,
        made=str(splits.entries["train"].path),
    )
    if method.trains:
        for entry in splits.entries.values():
            live.check_fits(window_lengths(entry.examples).values)
    return live


def make_streams(
    runs: Sequence[Run], splits: Splits, held: FeatureView | None = None
) -> tuple[list[StreamSpec], list[int]]:
    """Gather runs into streams.

    Args:
        runs: of one group.
        splits: their data.
        held: what is held out of train beside dev; it judges those that select by it.

    Returns:
        The streams, and for each of their members in turn its position in ``runs``.
    """
    # Runs of two heads with seeds 0 and 1, in the order last-0, last-1, p32-0, p32-1: one stream
    # of seed 0, with the runs 0 and 2, and one of seed 1; the positions are [0, 2, 1, 3].
    places = grouped(range(len(runs)), lambda place: stream_key(runs[place]))
    full = train_view(splits, runs[0].spec.pooling)
    every = np.arange(full.n_examples)
    views: dict[bytes, FeatureView] = {}  # one per sample, so that its rows are in memory once
    streams = []
    for members in places.values():
        spec = runs[members[0]].spec
        fitted, judging = fitted_and_judging(spec, splits, sample(spec, splits))
        for drawn in (fitted, judging):
            if drawn is not None and drawn.tobytes() not in views:
                whole = np.array_equal(drawn, every)
                views[drawn.tobytes()] = full if whole else full.take(drawn)
        judge = held if spec.select == HELD_OUT else None
        streams.append(
            StreamSpec(
                train=views[fitted.tobytes()],
                judge=judge if judging is None else views[judging.tobytes()],
                seed=spec.seed,
                steps=spec.of(Steps),
                members=tuple(runs[place].member for place in members),
            )
        )
    return streams, [place for members in places.values() for place in members]
