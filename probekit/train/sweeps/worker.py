"""One group as a task for an engine: open the data, train, save, return records."""

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from probekit.base.machine.interrupts import interrupts_held
from probekit.base.registry import parse
from probekit.base.selection import HELD_OUT
from probekit.errors import DataError
from probekit.features import FeatureView, Location, Splits, open_features
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.results import Record, recorded
from probekit.results.claims import Claims
from probekit.train import FitResult, Interrupted, StreamSpec, fit_group
from probekit.train.environment import describe_environment
from probekit.train.saved.folder import save_head
from probekit.train.stream import Report
from probekit.train.sweeps.outputs import Outputs
from probekit.train.sweeps.resolve import (
    Run,
    fitted_and_judging,
    resolve,
    sample,
    scored_views,
    text_array,
    train_view,
)
from probekit.train.sweeps.run_groups import fit_key, stream_key
from probekit.train.sweeps.saving import describe_training, write_predictions
from probekit.train.sweeps.search import Note
from probekit.train.sweeps.specs import DEFAULT_EVALS, TrainSpec
from probekit.train.sweeps.start import saved_classes
from probekit.version import __version__


@dataclass(frozen=True, kw_only=True)
class GroupTask:
    """Trains one group; picklable, so that any engine can run it.

    Attributes:
        specs: the runs, by record key.
        steps: what each of them counts on a progress bar.
        out: the records file.
        notes: what the record of some runs says besides: see `Note`.
        location: where entries and labels lie.
        device: what computes.
        memory: bytes that rows may take.
        outputs: what to write besides records.
        sweep: names the sweep, so that its groups in one process share what they opened.
    """

    specs: Mapping[str, TrainSpec]
    steps: Mapping[str, int]
    out: Path
    notes: Mapping[str, Note]
    location: Location
    device: str
    memory: int
    outputs: Outputs
    sweep: str

    def __call__(self, report: Report) -> Generator[Record | str, None, None]:
        """Train the runs that no other process trains or has trained.

        Yields:
            The record of each run that was trained, once it is recorded, and the key of each that
            is left to another process.
        """
        with Claims(self.out) as claims:
            keys = self._claim(claims)
            for key in self.specs.keys() - set(keys):
                report(self.steps[key])
                yield key
            if not keys:
                return
            first = self.specs[keys[0]]
            splits = open_once(self.sweep, *source_of(first), self.location)
            runs = [_resolve_again(self.specs[key], splits, key) for key in keys]
            results = fit_runs(
                runs,
                splits,
                device=self.device,
                memory=self.memory,
                predictions=bool(self.outputs.predictions),
                report=report,
            )
            for place, result in results:
                run = runs[place]
                self._write(run, result, splits)
                record = make_record(run, result, splits, self.outputs, self.device)
                if run.options.key in self.notes:
                    record = self.notes[run.options.key].on(record)
                yield record if claims.record(record) else record.key

    def _claim(self, claims: Claims) -> list[str]:
        """Claim the runs of the group that nobody trains; return those that nobody has trained."""
        free = claims.take(self.specs)
        known = recorded(self.out)  # after the claim: what was let go of by then is in it
        done = {key for key in free if key in known and self.outputs.are_there(key)}
        claims.release(done)
        return [key for key in self.specs if key in free - done]

    def _write(self, run: Run, result: FitResult, splits: Splits) -> None:
        """Write the saved head and the predictions, where they were asked for."""
        key = run.options.key
        if key in self.outputs.heads:
            about = describe_training(splits, run.options, result, init=run.init)
            save_head(self.outputs.heads[key], result, about)
        if key in self.outputs.predictions:
            views = scored_views(run.spec, splits)
            write_predictions(
                self.outputs.predictions[key],
                result.predictions,
                views,
                key=key,
                metric=run.options.metric,
                labels_fingerprint=run.options.labels_fingerprint,
            )


def _resolve_again(spec: TrainSpec, splits: Splits, key: str) -> Run:
    """Return a planned run, settled against the data as it is read now.

    Raises:
        DataError: the data is no longer what the run was planned with.
    """
    run = resolve(spec, splits)
    if run.options.key != key:
        raise DataError(
            f"{spec.task}: the labels, the features or the saved head to start from changed while "
            "the sweep ran. What is finished stays recorded as it was trained; run the command "
            "again, and every run on what changed is trained anew."
        )
    return run


def source_of(spec: TrainSpec) -> tuple[str, str, str | None, int | None, str, tuple[str, ...]]:
    """Return what decides which splits a run opens, as `open_once` takes it."""
    classes = saved_classes(spec)
    return spec.model, spec.task, spec.label, spec.control, spec.fit_on, classes


@lru_cache(maxsize=2)
def open_once(
    sweep: str,
    model: str,
    task: str,
    label: str | None,
    control: int | None,
    fit_on: str,
    classes: tuple[str, ...],
    location: Location,
) -> Splits:
    """Open splits, and keep the last two, for one sweep: the next sees labels that changed."""
    return open_features(
        model, task, label, location, control=control, fit_on=fit_on, classes=classes
    )


def fit_runs(
    runs: Sequence[Run],
    splits: Splits,
    *,
    device: str,
    memory: int | None,
    predictions: bool,
    report: Report,
) -> Iterator[tuple[int, FitResult]]:
    """Train runs of the same data side by side; yield each result with the place of its run.

    Runs that differ in a seed which decides nothing are fitted once. After Ctrl-C the results of
    what is finished come before it goes on. What is done with results is not interrupted, unless
    Ctrl-C comes twice.
    """
    firsts: dict[Hashable, int] = {}
    twins = [firsts.setdefault(fit_key(run), place) for place, run in enumerate(runs)]
    fitted = sorted(set(twins))
    views = scored_views(runs[0].spec, splits)
    streams, order = make_streams([runs[place] for place in fitted], splits, views.get(HELD_OUT))
    interrupt = None
    try:
        groups = fit_group(
            streams,
            views.pop("dev"),
            views,
            metric=METRICS[splits.metric],
            device=device,
            memory=memory,
            predictions=predictions,
            report=report,
        )
        flat: list[FitResult | None] = [result for group in groups for result in group]
    except Interrupted as error:
        flat, interrupt = list(error.finished), error
    report(sum(run.steps for place, run in enumerate(runs) if place not in set(fitted)))
    found = {fitted[place]: result for place, result in zip(order, flat, strict=True)}
    with nullcontext() if interrupt else interrupts_held():
        for place, twin in enumerate(twins):
            if (result := found[twin]) is not None:
                yield place, result
    if interrupt:
        raise interrupt


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
    places: dict[tuple[object, ...], list[int]] = {}
    for place, run in enumerate(runs):
        places.setdefault(stream_key(run), []).append(place)
    pooling = text_array(runs[0].spec, splits)
    full = train_view(splits, pooling)
    views: dict[bytes, FeatureView] = {}  # one per sample, so that its rows are in memory once

    def view_of_drawn(drawn: Int64[np.ndarray, " some"]) -> FeatureView:
        name = drawn.tobytes()
        if name not in views:
            views[name] = full if len(drawn) == full.n_examples else full.take(drawn)
        return views[name]

    streams = []
    for members in places.values():
        spec = runs[members[0]].spec
        fitted, judging = fitted_and_judging(spec, sample(spec, splits))
        judge = held if spec.select == HELD_OUT else None
        streams.append(
            StreamSpec(
                train=view_of_drawn(fitted),
                judge=judge if judging is None else view_of_drawn(judging),
                seed=spec.seed,
                epochs=spec.epochs or 0,
                batch_size=spec.batch_size or 1,
                evals=spec.evals or 1,
                members=tuple(runs[place].member for place in members),
            )
        )
    return streams, [place for members in places.values() for place in members]


def make_record(
    run: Run, result: FitResult, splits: Splits, outputs: Outputs, device: str
) -> Record:
    """Return the record of a finished run."""
    predictions = outputs.predictions.get(run.options.key)
    return Record(
        **described(run, splits),
        eval_score=result.eval_score,
        eval_last=result.eval_last,
        best_epoch=result.best_epoch,
        test_score=result.test_score,
        scores=result.scores,
        curve=result.curve,
        weights=result.weights,
        raw_weights=result.raw_weights,
        class_weights=result.class_weights,
        diverged=result.diverged,
        diagnosis={**result.diagnosis, **_fewer_folds(run)},
        environment=describe_environment(device),
        confusion=result.confusion,
        n_params=result.n_params,
        train_seconds=result.train_seconds,
        predictions=None if predictions is None else str(predictions),
        version=__version__,
        key=run.options.key,
    )


def _fewer_folds(run: Run) -> dict[str, Any]:
    """Return the folds that a draw allowed, where these are fewer than the default."""
    select = run.member.select
    return {"folds": select.folds} if select is not None and select.default else {}


def _seen(run: Run, splits: Splits) -> dict[str, Any]:
    """Return how much a run was fitted on, and of how much."""
    entry = splits.entries["train"]
    found: dict[str, Any] = {
        "examples": run.n_sentences,
        "of_examples": splits.n_train,
        "of_rows": splits.n_rows("train"),
        "dtype": entry.manifest.dtype,
        "format": entry.manifest.backend,
    }
    limit = entry.manifest.limit
    return found if limit is None else found | {"limit": limit}


def described(run: Run, splits: Splits) -> dict[str, Any]:
    """Return what a record says of a run before it has begun, by field."""
    spec, options, member = run.spec, run.options, run.member
    control = "" if spec.control is None else f" (control {spec.control})"
    return {
        "model": splits.manifest.model,
        "task": splits.task.name,
        "label": f"{spec.label}{control}",
        "labels_fingerprint": options.labels_fingerprint,
        "entry": splits.manifest.key,
        "seen": _seen(run, splits),
        "head": member.head.name,
        "decoder": member.decoder.name,
        "options": changed_settings(spec),
        "layers": options.layers,
        "depth": spec.depth,
        "normalize": spec.normalize,
        "pooling": spec.pooling,
        "protocol": spec.protocol,
        "shots": spec.shots,
        "fraction": spec.fraction,
        "seed": spec.seed,
        "init": run.init,
        "freeze": spec.freeze_fusion,
        "fitter": spec.fit,
        "select": None if member.select is None else member.select.asked,
        "l2": spec.l2,
        "epochs": spec.epochs,
        "evals": None if spec.evals == DEFAULT_EVALS else spec.evals,
        "lr": spec.lr,
        "rates": dict(spec.rates),
        "rate_from": spec.rate_from,
        "trial": spec.trial,
        "batch_size": spec.batch_size,
        "optimizer": describe_optimizer(spec),
        "metric": options.metric,
    }


def changed_settings(spec: TrainSpec) -> dict[str, Any]:
    """Return the settings of head and decoder that are not the default, as ``decoder.hidden``."""
    head = parse("head", spec.head, HEADS)
    found = _changed("head", head.to_json(), HEADS[head.name]().to_json())
    if spec.decoder is not None:
        decoder = parse("decoder", spec.decoder, DECODERS)
        found |= _changed("decoder", decoder.to_json(), DECODERS[decoder.name]().to_json())
    return found


def _changed(kind: str, given: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{kind}.{name}": value for name, value in given.items() if default[name] != value}


def describe_optimizer(spec: TrainSpec) -> str:
    """Return optimizer and schedule as records name them."""
    if spec.fit != "adam":
        return {"lbfgs": "L-BFGS"}.get(spec.fit, spec.fit)
    decay = "linear decay" if spec.schedule == "linear" else "constant rate"
    if spec.optimizer == "adam":
        return f"Adam, {decay}"
    return f"AdamW, weight decay {spec.weight_decay:g}, {decay}"
