"""One group as a task for an engine: open the data, train, save, return records."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from probekit import __version__
from probekit.features import FeatureView, Location, Splits, open_features
from probekit.metrics import METRICS
from probekit.results import Record
from probekit.specs import TrainSpec
from probekit.sweeps.groups import stream_key
from probekit.sweeps.resolve import Run, dev_view, resolve, sample
from probekit.train import FitResult, StreamSpec, fit_group
from probekit.train.predictions import write_predictions
from probekit.train.saved import describe_training, save_head
from probekit.train.stream import Report


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a run leaves behind besides its record.

    Attributes:
        heads: folder of each saved head, by record key.
        predictions: Parquet file of each run's predictions, by record key.
    """

    heads: dict[str, Path]
    predictions: dict[str, Path]


@dataclass(frozen=True, kw_only=True)
class GroupTask:
    """Trains one group; picklable, so that any engine can run it.

    Attributes:
        specs: the runs.
        location: where entries and labels lie.
        device: what computes.
        memory: bytes that rows may take.
        outputs: what to write besides records.
        sweep: names the sweep, so that its groups in one process share what they opened.
    """

    specs: tuple[TrainSpec, ...]
    location: Location
    device: str
    memory: int
    outputs: Outputs
    sweep: str

    def __call__(self, report: Report) -> list[Record]:
        """Train the group and return one record per spec, in their order."""
        first = self.specs[0]
        splits = open_once(self.sweep, first.model, first.task, first.label, self.location)
        runs = [resolve(spec, splits) for spec in self.specs]
        results = fit_runs(
            runs,
            splits,
            device=self.device,
            memory=self.memory,
            predictions=bool(self.outputs.predictions),
            report=report,
        )
        for run, result in zip(runs, results, strict=True):
            self._write(run, result, splits)
        return [
            make_record(run, result, splits, self.outputs)
            for run, result in zip(runs, results, strict=True)
        ]

    def _write(self, run: Run, result: FitResult, splits: Splits) -> None:
        """Write the saved head and the predictions, where they were asked for."""
        key = run.options.key
        if key in self.outputs.heads:
            about = describe_training(splits, run.options, result)
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


@lru_cache(maxsize=2)
def open_once(sweep: str, model: str, task: str, label: str | None, location: Location) -> Splits:
    """Open splits once per sweep and process; the next sweep sees labels that changed."""
    return open_features(model, task, label, location)


def scored_views(spec: TrainSpec, splits: Splits) -> dict[str, FeatureView]:
    """Return what a run is scored on: dev, and test where it has labels."""
    views = {"dev": dev_view(spec, splits)}
    return views | ({"test": splits.view("test")} if "test" in splits.labels else {})


def fit_runs(
    runs: Sequence[Run],
    splits: Splits,
    *,
    device: str,
    memory: int | None,
    predictions: bool,
    report: Report,
) -> list[FitResult]:
    """Train runs of the same data side by side; one result per run, in their order."""
    streams, order = make_streams(runs, splits)
    views = scored_views(runs[0].spec, splits)
    results = fit_group(
        streams,
        views["dev"],
        views.get("test"),
        metric=METRICS[splits.metric](),
        device=device,
        memory=memory,
        predictions=predictions,
        report=report,
    )
    found = dict(zip(order, [result for group in results for result in group], strict=True))
    return [found[place] for place in range(len(runs))]


def make_streams(runs: Sequence[Run], splits: Splits) -> tuple[list[StreamSpec], list[int]]:
    """Gather runs into streams.

    Returns:
        The streams, and for each of their members in turn its position in ``runs``.
    """
    places: dict[tuple[object, ...], list[int]] = {}
    for place, run in enumerate(runs):
        places.setdefault(stream_key(run), []).append(place)
    full = splits.view("train", valid_only=True)
    views: dict[bytes, FeatureView] = {}  # one per sample, so that its rows are in memory once
    streams = []
    for members in places.values():
        spec = runs[members[0]].spec
        drawn = sample(spec, splits)
        name = drawn.tobytes()
        if name not in views:
            views[name] = full if len(drawn) == full.n_examples else full.take(drawn)
        streams.append(
            StreamSpec(
                train=views[name],
                seed=spec.seed,
                epochs=spec.epochs,
                batch_size=spec.batch_size,
                evals=spec.evals,
                members=tuple(runs[place].member for place in members),
            )
        )
    return streams, [place for members in places.values() for place in members]


def make_record(run: Run, result: FitResult, splits: Splits, outputs: Outputs) -> Record:
    """Return the record of a finished run."""
    spec, options = run.spec, run.options
    assert spec.label is not None and spec.decoder is not None and spec.lr is not None
    manifest = splits.entries["train"].manifest
    predictions = outputs.predictions.get(options.key)
    return Record(
        model=manifest.model,
        task=splits.task.name,
        label=spec.label,
        labels_fingerprint=options.labels_fingerprint,
        entry=manifest.key,
        head=spec.head,
        decoder=spec.decoder,
        layers=options.layers,
        depth=spec.depth,
        normalize=spec.normalize,
        protocol=spec.protocol,
        shots=spec.shots,
        fraction=spec.fraction,
        seed=spec.seed,
        epochs=spec.epochs,
        lr=spec.lr,
        mix_lr=spec.mix_lr,
        batch_size=spec.batch_size,
        optimizer=f"AdamW, weight decay {spec.weight_decay:g}, linear decay",
        metric=options.metric,
        eval_score=result.eval_score,
        eval_last=result.eval_last,
        best_epoch=result.best_epoch,
        test_score=result.test_score,
        scores=result.scores,
        curve=result.curve,
        weights=result.weights,
        raw_weights=result.raw_weights,
        n_params=result.n_params,
        train_seconds=result.train_seconds,
        predictions=None if predictions is None else str(predictions),
        version=__version__,
        key=options.key,
    )
