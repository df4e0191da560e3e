"""Train a group of heads side by side, from a snapshot where their process was lost."""

import hashlib
import io
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from probekit.base.machine import interrupts_held, keep_few_kernels, keep_free_memory, pick_device
from probekit.base.replacing import replacing
from probekit.engines import Report
from probekit.errors import reason_of
from probekit.features import FeatureView
from probekit.metrics import Metric
from probekit.results.claims import SNAPSHOT, run_file
from probekit.train.attribution import MeanRows, attribute, mean_rows
from probekit.train.live.live_rows import LiveRows
from probekit.train.member import Member
from probekit.train.result import FitResult, freeze
from probekit.train.scoring import ScoredSplit
from probekit.train.solving.solved_stream import SolvedStream
from probekit.train.stream import Residency, Stream, StreamSpec
from probekit.version import __version__

if TYPE_CHECKING:
    from probekit.train.live.live_model import LiveModel

logger = logging.getLogger(__name__)

_DIGEST = hashlib.sha256().digest_size
"""Bytes before the state: its sha256."""

SNAPSHOT_SECONDS = 300.0
"""Seconds between two snapshots, so what a run that is killed loses."""


@dataclass(eq=False)
class Snapshot:
    """The file that keeps one run.

    Attributes:
        path: the file.
        key: record key of the run. What another run, or another version, has left is not read.
    """

    path: Path
    key: str
    _last: float = field(default_factory=time.monotonic, init=False)

    @classmethod
    def beside(cls, out: Path, key: str) -> "Snapshot":
        """Return the snapshot of a run that is recorded in ``out``."""
        return cls(run_file(out, key, SNAPSHOT), key)

    def read(self) -> Mapping[str, Any] | None:
        """Return the state that was kept; None where there is none, or none that can be used."""
        try:
            content = memoryview(self.path.read_bytes())
        except FileNotFoundError:
            return None
        if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
            logger.warning("%s is damaged: the run starts again.", self.path)
            return None
        saved = torch.load(io.BytesIO(content[_DIGEST:]), map_location="cpu", weights_only=True)
        if not isinstance(saved, dict) or saved.get("of") != self._of:
            logger.warning("%s belongs to another run or version: the run starts again.", self.path)
            return None
        logger.info("%s: resuming after step %d.", self.path, saved["state"]["step"])
        state: Mapping[str, Any] = saved["state"]
        return state

    def keep(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Write a state, if it is time to.

        A disk that is full does not end the run: what cannot be written is said.
        """
        if time.monotonic() - self._last < SNAPSHOT_SECONDS:
            return
        try:
            content = io.BytesIO()
            torch.save({"of": self._of, "state": state()}, content)
            with replacing(self.path) as fresh, fresh.open("wb") as file:
                file.write(hashlib.sha256(content.getbuffer()).digest())
                file.write(content.getbuffer())
        except (OSError, RuntimeError) as error:
            logger.warning(
                "%s cannot be written (%s): if the run is killed, it starts again from the "
                "beginning.",
                self.path,
                reason_of(error),
            )
        self._last = time.monotonic()

    def remove(self) -> None:
        """Remove the file, if there is one: the run is recorded."""
        self.path.unlink(missing_ok=True)

    @property
    def _of(self) -> list[str]:
        return [self.key, __version__]


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
    ablate: bool = False,
    live: "LiveModel | None" = None,
    snapshot: Snapshot | None = None,
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
        ablate: find the loss on dev when the rows of each layer are their mean over train.
        live: the model that makes the rows, in place of the cache; one member may train it.
        snapshot: keeps the run of one that trains it, and is where the run goes on.
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
    residency = (
        Residency(memory, torch.device(pick_device(device))) if live is None else LiveRows(live)
    )
    results: dict[Member, FitResult] = {}
    group = _Group(streams, dev, metric, residency, report)
    if live is not None and snapshot is not None:
        group.resume(live, snapshot)
    with ExitStack() as reading_ahead:
        for stream in group.running:
            if isinstance(stream, Stream):
                reading_ahead.callback(stream.close)
        interrupt = group.train()
        try:
            with nullcontext() if interrupt else interrupts_held():
                ways = {"keep": predictions, "ablate": ablate}
                results = group.finish(others or {}, metrics or {}, **ways)
        except KeyboardInterrupt as late:  # held until all was found, or the second one
            interrupt = late
    if interrupt:
        members = [member for stream in group.running for member in stream.members]
        raise Interrupted([results.get(member) for member in members])
    return [tuple(results[member] for member in stream.members) for stream in group.running]


class _Group:
    """Streams that are trained side by side, and what scores their members.

    Attributes:
        running: the streams, in their order.
    """

    def __init__(
        self,
        specs: Sequence[StreamSpec],
        dev: FeatureView,
        metric: type[Metric],
        residency: Residency,
        report: Report,
    ) -> None:
        """Open what the streams read, and build their members."""
        self._specs, self._residency, self._report = specs, residency, report
        descending = [spec for spec in specs if not spec.solved]
        dev_sources, sources = residency.share(dev, descending)
        if len(descending) < len(specs):
            dev_sources |= residency.sources(dev, specs, once=True)
        self._dev = ScoredSplit(dev, dev_sources, metric)
        self._judges = {id(dev): self._dev}
        self._keep: Callable[[], None] = lambda: None
        opened_sources = (source for by_kind in sources for source in by_kind.values())
        on_disk = [source for source in opened_sources if source.resident is None]
        ahead = residency.read_ahead(len(on_disk))
        opened = iter(sources)
        self.running = [
            SolvedStream(spec, residency, self._judge_of(spec))
            if spec.solved
            else Stream(spec, next(opened), ahead=ahead)
            for spec in specs
        ]

    def _judge_of(self, spec: StreamSpec) -> ScoredSplit:
        """Return what chooses a stream's checkpoints or strengths; one for all of the same rows."""
        view = self._dev.view if spec.judge is None else spec.judge
        if id(view) not in self._judges:
            # a normalisation is that of all layers that streams over one view of train read
            judged = [stream for stream in self._specs if stream.judge is view]
            trained = {id(stream.train) for stream in judged}
            judged = [stream for stream in self._specs if id(stream.train) in trained]
            sources = self._residency.sources(view, judged, once=spec.solved)
            self._judges[id(view)] = ScoredSplit(view, sources, self._dev.metric)
        return self._judges[id(view)]

    def _finished(self) -> list[tuple[StreamSpec, Member]]:
        """Return the members that are finished, each with its stream."""
        return [(stream.spec, member) for stream in self.running for member in stream.finished]

    def train(self) -> KeyboardInterrupt | None:
        """Solve and train all streams; return the Ctrl-C that left only some members finished."""
        try:
            for stream in self.running:
                if isinstance(stream, SolvedStream):
                    stream.solve(self._report)
            self._descend([stream for stream in self.running if isinstance(stream, Stream)])
        except KeyboardInterrupt as interrupt:
            if not (finished := self._finished()):
                raise
            logger.warning(
                "interrupted: scoring and recording the finished runs of this group, %d of %d; "
                "Ctrl-C again discards them",
                len(finished),
                sum(len(stream.members) for stream in self.running),
            )
            return interrupt
        return None

    def _descend(self, streams: Sequence[Stream]) -> None:
        """Advance streams from evaluation to evaluation; one pass scores all with one judge."""
        # Streams of 4 and 6 evaluations: the first four points of both are scored in one pass each,
        # whatever steps they stand for; the last two of the second stream are scored alone.
        judges = [self._judge_of(stream.spec) for stream in streams]
        for point in range(max((len(stream.points) for stream in streams), default=0)):
            judged: dict[ScoredSplit, list[Stream]] = {}
            for stream, judge in zip(streams, judges, strict=True):
                if point < len(stream.points) and stream.points[point] > stream.scored_at:
                    stream.advance(stream.points[point], self._stepped)
                    judged.setdefault(judge, []).append(stream)
            for judge, scored in judged.items():
                members = [(stream, member) for stream in scored for member in stream.members]
                predictions = judge.decide([member for _, member in members])
                for (stream, member), predicted in zip(members, predictions, strict=True):
                    scores = judge.scorer.score(predicted)
                    member.note(stream.step, scores, judge.metric, predicted)
                    score = judge.metric.scale.text(member.last_score)
                    where = "dev" if judge is self._dev else "held-out"
                    self._report(f"{member.name}: {score} ({where})")
                for stream in scored:
                    stream.scored_at = stream.step

    def resume(self, live: "LiveModel", snapshot: Snapshot) -> None:
        """Go on from the snapshot of the one run, if there is one, and keep it there from now on.

        Args:
            live: the model that it trains.
            snapshot: where it is kept.
        """
        (stream,) = self.running
        assert isinstance(stream, Stream), "a model is trained by steps"
        if (state := snapshot.read()) is not None:
            stream.restore(state)
            live.passes = state["passes"]
            self._report(stream.step)
        self._keep = lambda: snapshot.keep(lambda: stream.state() | {"passes": live.passes})

    def _stepped(self, stream: Stream) -> None:
        """Report a step, and keep where the run is."""
        self._report(len(stream.members))
        self._keep()

    def finish(
        self,
        others: Mapping[str, FeatureView],
        metrics: Mapping[str, type[Metric]],
        *,
        keep: bool,
        ablate: bool,
    ) -> dict[Member, FitResult]:
        """Return members to their best checkpoint, weigh their layers, score the other splits."""
        finished, dev, splits = self._finished(), self._dev, dict[str, ScoredSplit]()
        members = [member for _, member in finished]
        for name, view in others.items():
            sources = self._residency.sources(view, self._specs, once=True)
            splits[name] = ScoredSplit(view, sources, metrics.get(name, dev.metric))
        for member in members:
            if member.best is not None:  # a solver leaves nothing but its solution
                member.probe.load_state_dict(member.best.state)
            member.probe.eval()
        apart = {member for spec, member in finished if spec.solved or spec.judge is not None}
        if dev.view.of_sets:
            dev.decide([member for member in members if member in apart])
        assessed = {"dev": dev.assess(members, keep=keep)}
        for member, on_dev in zip(members, assessed["dev"], strict=True):
            if member in apart:
                member.settle(dev.scorer.score(on_dev.predicted), dev.metric, on_dev.predicted)
        counted = attribute(dev, members, self._mean_rows() if ablate else None)
        for member in members:
            if member.refitted is not None:
                member.probe.load_state_dict(member.refitted)
        assessed |= {name: split.assess(members, keep=keep) for name, split in splits.items()}
        results = {}
        for index, (spec, member) in enumerate(finished):
            by_split = {name: of_split[index] for name, of_split in assessed.items()}
            results[member] = freeze(member, spec, dev, counted[index], splits, by_split, keep=keep)
        return results

    def _mean_rows(self) -> MeanRows:
        """Return the mean row of each layer over what the finished members were fitted on."""
        means: dict[Member, Tensor] = {}
        for stream in self.running:
            members = [member for member in stream.finished if len(member.spec.layers) > 1]
            if members:
                # what streams share is normalised as a whole, with layers that this one lacks
                read = {layer for member in members for layer in member.normalization.layers}
                layers = tuple(sorted(read))
                source = self._residency.source(stream.spec.train, "rows", layers, once=True)
                means.update(mean_rows(source, members))
        return means
