"""Train a group of heads side by side: every row is read once for all of them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from probekit.features import FeatureView
from probekit.hardware import pick_device
from probekit.heap import keep_few_kernels, keep_free_memory
from probekit.metrics import Metric
from probekit.train.classes import confusion_of, weights_by_class
from probekit.train.freeze import Outcome, freeze
from probekit.train.member import Member
from probekit.train.residency import Residency
from probekit.train.result import FitResult
from probekit.train.scoring import ScoredSplit
from probekit.train.solved_stream import SolvedStream
from probekit.train.stream import Report, Stream, StreamSpec


def fit_group(
    streams: Sequence[StreamSpec],
    dev: FeatureView,
    others: Mapping[str, FeatureView] | None = None,
    *,
    metric: Metric,
    metrics: Mapping[str, Metric] | None = None,
    device: str = "cpu",
    memory: int | None = None,
    predictions: bool = False,
    report: Report = lambda steps: None,
) -> list[tuple[FitResult, ...]]:
    """Train the members of all streams and score them on dev and on other splits.

    A member's result depends on its own options, its stream's sample and seed, and the data; not
    on the other members, nor on ``memory``. (Another device or number of threads may move the
    last bits; so may, on CUDA, kernels that add in no fixed order, and ``memory`` those of a solved
    fit, whose sums over the rows it cuts otherwise.)

    Args:
        streams: what to train.
        dev: scored at the evaluation points of each stream that has no judge of its own, in one
            pass for all members; once, at the end, for all others.
        others: scored once, by each member's best checkpoint; by name, such as ``test``.
        metric: how all are scored.
        metrics: other metrics for some of the others, by name.
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
    keep_few_kernels()
    keep_free_memory()
    residency = Residency(memory, torch.device(pick_device(device)))
    descending = [spec for spec in streams if not spec.solved]
    dev_sources, sources = residency.share(dev, descending)
    every = residency.sources(dev, streams, once=True) if len(descending) < len(streams) else {}
    scored_dev = ScoredSplit(dev, dev_sources | every, metric)
    on_disk = sum(one.rows.resident is None for own in sources for one in own.values())
    ahead = residency.read_ahead(on_disk)
    with ExitStack() as stack:
        opened = iter(sources)
        running: list[Stream | SolvedStream] = []
        for spec in streams:
            if spec.solved:
                judge = _own_judge(spec, scored_dev, residency) or scored_dev
                running.append(SolvedStream(spec, residency, judge))
                continue
            stream = Stream(spec, next(opened), ahead=ahead)
            stack.callback(stream.close)
            running.append(stream)
        for one in running:
            if isinstance(one, SolvedStream):
                one.solve(report)
        _train([one for one in running if isinstance(one, Stream)], scored_dev, residency, report)
        scored = {
            name: ScoredSplit(
                view, residency.sources(view, streams, once=True), (metrics or {}).get(name, metric)
            )
            for name, view in (others or {}).items()
        }
        outcomes = _finish(running, scored_dev, scored)
    return _results(running, outcomes, metric, predictions, dev)


def _train(
    streams: Sequence[Stream], dev: ScoredSplit, residency: Residency, report: Report
) -> None:
    """Advance all streams from evaluation to evaluation; one pass scores all with one judge."""
    judges = {id(dev.view): dev}
    for stream in streams:
        view = stream.spec.judge
        if view is not None and id(view) not in judges:
            judged = [one.spec for one in streams if one.spec.judge is view]
            sources = residency.sources(view, judged)
            judges[id(view)] = ScoredSplit(view, sources, dev.metric)
    for point in range(max((len(stream.points) for stream in streams), default=0)):
        active = [stream for stream in streams if point < len(stream.points)]
        for stream in active:
            stream.advance(stream.points[point], report)
        for name, judge in judges.items():
            own = [one for one in active if id(_judged_by(one, dev)) == name]
            _judge(own, judge)


def _own_judge(spec: StreamSpec, dev: ScoredSplit, residency: Residency) -> ScoredSplit | None:
    """Return what chooses the strengths of a solved stream, where that is not dev."""
    if spec.judge is None:
        return None
    sources = residency.sources(spec.judge, [spec], once=True)
    return ScoredSplit(spec.judge, sources, dev.metric)


def _judged_by(stream: Stream, dev: ScoredSplit) -> FeatureView:
    return dev.view if stream.spec.judge is None else stream.spec.judge


def _judge(streams: Sequence[Stream], judge: ScoredSplit) -> None:
    """Score the members of streams where they are now."""
    members = [member for stream in streams for member in stream.members]
    steps = [stream.step for stream in streams for _ in stream.members]
    for member, step, predicted in zip(members, steps, judge.predict(members), strict=True):
        member.note(step, judge.scorer.score(predicted), judge.metric, predicted)


def _finish(
    streams: Sequence[Stream | SolvedStream], dev: ScoredSplit, others: Mapping[str, ScoredSplit]
) -> list[Outcome]:
    """Return every member to its best checkpoint, weigh its layers, score the other splits."""
    members = [member for stream in streams for member in stream.members]
    for member in members:
        member.restore_best()
    unscored = [
        member
        for stream in streams
        if stream.spec.solved or stream.spec.judge is not None
        for member in stream.members
    ]
    for member, found in zip(unscored, dev.predict(unscored), strict=True):
        member.settle(dev.scorer.score(found), dev.metric, found)
    weights = dev.weigh(members)
    predicted = {name: split.predict(members) for name, split in others.items()}
    return [
        Outcome(
            weights=own,
            by_class=weights_by_class(own, dev.view),
            confusion=_confusion(member, dev),
            predicted={name: found[place] for name, found in predicted.items()},
            scores={
                name: others[name].scorer.judge(found[place]) for name, found in predicted.items()
            },
        )
        for place, (member, own) in enumerate(zip(members, weights, strict=True))
    ]


def _results(
    streams: Sequence[Stream | SolvedStream],
    outcomes: Sequence[Outcome],
    metric: Metric,
    predictions: bool,
    dev: FeatureView,
) -> list[tuple[FitResult, ...]]:
    """Return what is kept of every member, stream by stream."""
    left = iter(outcomes)
    return [
        tuple(
            freeze(member, next(left), metric.name, stream.spec, predictions, dev)
            for member in stream.members
        )
        for stream in streams
    ]


def _confusion(member: Member, dev: ScoredSplit) -> dict[str, Any] | None:
    assert member.best is not None, "no checkpoint was scored"
    by_class = dev.metric.consumes == "classes"
    return confusion_of(dev.view, member.best.predicted) if by_class else None
