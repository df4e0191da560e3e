"""Train a group of heads side by side: every row is read once for all of them."""

from collections.abc import Sequence
from contextlib import ExitStack

import torch

from probekit.features import FeatureView
from probekit.hardware import pick_device
from probekit.metrics import Metric
from probekit.train.freeze import Outcome, freeze
from probekit.train.residency import Residency
from probekit.train.result import FitResult
from probekit.train.scoring import ScoredSplit
from probekit.train.stream import Report, Stream, StreamSpec, union


def fit_group(
    streams: Sequence[StreamSpec],
    dev: FeatureView,
    test: FeatureView | None = None,
    *,
    metric: Metric,
    device: str = "cpu",
    memory: int | None = None,
    predictions: bool = False,
    report: Report = lambda steps: None,
) -> list[tuple[FitResult, ...]]:
    """Train the members of all streams and score them on dev and test.

    A member's result depends on its own options, its stream's sample and seed, and the data; not
    on the other members, nor on ``memory``. (Another device or number of threads may move the
    last bits.)

    Args:
        streams: what to train.
        dev: scored at each stream's evaluation points, in one pass for all members.
        test: scored once, by each member's best checkpoint.
        metric: how both are scored.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        memory: bytes that rows may take; more are streamed from disk. ``None`` is half of what is
            free.
        predictions: keep the predictions of the best checkpoints.
        report: receives the number of steps done, counted over members.

    Returns:
        For each stream, the results of its members in their order.

    Raises:
        OptionError: a layer that the cache does not hold, or a normalisation that cannot be had.
    """
    residency = Residency(memory, torch.device(pick_device(device)))
    layers = union(streams)
    scored_dev = ScoredSplit(residency.rows(dev, layers), metric)
    rows = residency.streams(streams)
    ahead = residency.read_ahead(sum(item.resident is None for item in rows))
    with ExitStack() as stack:
        running = []
        for spec, own in zip(streams, rows, strict=True):
            stream = Stream(spec, own, memory=ahead)
            stack.callback(stream.close)
            running.append(stream)
        _train(running, scored_dev, report)
        scored_test = None if test is None else ScoredSplit(residency.once(test, layers), metric)
        outcomes = iter(_finish(running, scored_dev, scored_test))
    return [
        tuple(
            freeze(member, next(outcomes), metric.name, stream.spec.steps_per_epoch, predictions)
            for member in stream.members
        )
        for stream in running
    ]


def _train(streams: Sequence[Stream], dev: ScoredSplit, report: Report) -> None:
    """Advance all streams from evaluation to evaluation; one dev pass scores them all."""
    for point in range(max(len(stream.points) for stream in streams)):
        active = [stream for stream in streams if point < len(stream.points)]
        for stream in active:
            stream.advance(stream.points[point], report)
        members = [member for stream in active for member in stream.members]
        steps = [stream.step for stream in active for _ in stream.members]
        for member, step, predicted in zip(members, steps, dev.predict(members), strict=True):
            member.note(step, dev.scorer.score(predicted), dev.metric.name, predicted)


def _finish(streams: Sequence[Stream], dev: ScoredSplit, test: ScoredSplit | None) -> list[Outcome]:
    """Return every member to its best checkpoint, weigh its layers, score test."""
    members = [member for stream in streams for member in stream.members]
    for member in members:
        member.restore_best()
    weights = dev.weigh(members)
    predicted = test.predict(members) if test is not None else [None] * len(members)
    return [
        Outcome(
            weights=own,
            predicted=found,
            scores={} if found is None or test is None else test.scorer.judge(found),
        )
        for own, found in zip(weights, predicted, strict=True)
    ]
