"""Train a group of heads side by side: every row is read once for all of them."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import torch

from probekit.base.machine.hardware import pick_device
from probekit.base.machine.heap import keep_few_kernels, keep_free_memory
from probekit.base.machine.interrupts import interrupts_held
from probekit.features import FeatureView
from probekit.metrics import Metric
from probekit.train.class_facts import confusion_of, weights_by_class
from probekit.train.freeze import Outcome, freeze
from probekit.train.member import Member
from probekit.train.residency import Residency
from probekit.train.result import FitResult
from probekit.train.scoring import ScoredSplit
from probekit.train.solving.solved_stream import SolvedStream
from probekit.train.stream import Report, Stream, StreamSpec, named

logger = logging.getLogger(__name__)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the midst of a group.

    Attributes:
        finished: the results of the members that were solved or had taken their last step, in the
            order of all members; None for each of the others.
    """

    def __init__(self, finished: Sequence[FitResult | None]) -> None:
        super().__init__()
        self.finished = finished


def fit_group(
    streams: Sequence[StreamSpec],
    dev: FeatureView,
    others: Mapping[str, FeatureView] | None = None,
    *,
    metric: type[Metric],
    metrics: Mapping[str, type[Metric]] | None = None,
    device: str = "cpu",
    memory: int | None = None,
    predictions: bool = False,
    report: Report = lambda news: None,
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
        report: receives the number of steps done, counted over members, and which member was
            scored last, in words.

    Returns:
        For each stream, the results of its members in their order.

    Raises:
        OptionError: a layer that the cache does not hold, or a normalisation that cannot be had.
        Interrupted: Ctrl-C, while members were trained; the error has the finished ones.
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
        interrupt = _advance(running, scored_dev, residency, report)
        found: dict[Member, FitResult] = {}
        try:
            with nullcontext() if interrupt else interrupts_held():
                scored = {
                    name: ScoredSplit(
                        view,
                        residency.sources(view, streams, once=True),
                        (metrics or {}).get(name, metric),
                    )
                    for name, view in (others or {}).items()
                }
                finished = _finished(running)
                outcomes = _finish(finished, scored_dev, scored)
                found = {
                    member: freeze(member, outcome, metric.name, one.spec, predictions, dev)
                    for (one, member), outcome in zip(finished, outcomes, strict=True)
                }
        except KeyboardInterrupt as late:  # held until all was found, or the second one
            interrupt = late
    if interrupt:
        raise Interrupted([found.get(member) for one in running for member in one.members])
    return [tuple(found[member] for member in one.members) for one in running]


def _advance(
    running: Sequence[Stream | SolvedStream],
    dev: ScoredSplit,
    residency: Residency,
    report: Report,
) -> KeyboardInterrupt | None:
    """Solve and train all streams; return the Ctrl-C that left only some members finished."""
    try:
        for one in running:
            if isinstance(one, SolvedStream):
                one.solve(report)
        _train([one for one in running if isinstance(one, Stream)], dev, residency, report)
    except KeyboardInterrupt as interrupt:
        if not (finished := _finished(running)):
            raise
        logger.warning(
            "interrupted: scoring and recording the finished runs of this group, %d of %d; Ctrl-C "
            "again drops them",
            len(finished),
            sum(len(one.members) for one in running),
        )
        return interrupt
    return None


def _finished(
    running: Sequence[Stream | SolvedStream],
) -> list[tuple[Stream | SolvedStream, Member]]:
    """Return the members that are finished, each with its stream."""
    return [(stream, member) for stream in running for member in stream.finished]


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
            _judge(own, judge, report)


def _own_judge(spec: StreamSpec, dev: ScoredSplit, residency: Residency) -> ScoredSplit | None:
    """Return what chooses the strengths of a solved stream, where that is not dev."""
    if spec.judge is None:
        return None
    sources = residency.sources(spec.judge, [spec], once=True)
    return ScoredSplit(spec.judge, sources, dev.metric)


def _judged_by(stream: Stream, dev: ScoredSplit) -> FeatureView:
    return dev.view if stream.spec.judge is None else stream.spec.judge


def _judge(streams: Sequence[Stream], judge: ScoredSplit, report: Report) -> None:
    """Score the members of streams where they are now."""
    members = [(stream, member) for stream in streams for member in stream.members]
    found = judge.predict([member for _, member in members])
    for (stream, member), predicted in zip(members, found, strict=True):
        member.note(stream.step, judge.scorer.score(predicted), judge.metric, predicted)
        score = judge.metric.scale.text(member.last_score)
        report(f"{named(member, stream.spec)}: {score}")
    for stream in streams:
        stream.scored_at = stream.step


def _finish(
    finished: Sequence[tuple[Stream | SolvedStream, Member]],
    dev: ScoredSplit,
    others: Mapping[str, ScoredSplit],
) -> list[Outcome]:
    """Return members to their best checkpoint, weigh their layers, score the other splits."""
    members = [member for _, member in finished]
    for member in members:
        member.restore_best()
    unscored = [
        member for stream, member in finished if stream.spec.solved or stream.spec.judge is not None
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


def _confusion(member: Member, dev: ScoredSplit) -> dict[str, Any] | None:
    assert member.best is not None, "no checkpoint was scored"
    by_class = dev.metric.consumes == "classes"
    return confusion_of(dev.view, member.best.predicted) if by_class else None
